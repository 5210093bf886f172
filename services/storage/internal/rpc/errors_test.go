package rpc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/check"
	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// domainErrors are all errors that the packages below show, by name, and what
// they are on the wire. inside tells that the node gives the error another kind
// before it gets here.
var domainErrors = map[string]struct {
	err    error
	code   storagev1.ErrorCode
	inside bool
}{
	"node.ErrUnknownPartition": {err: node.ErrUnknownPartition, code: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION},
	"node.ErrDamaged":          {err: node.ErrDamaged, code: storagev1.ErrorCode_ERROR_CODE_DAMAGED},
	"node.ErrDisk":             {err: node.ErrDisk, code: storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED},
	"node.ErrNoSpace":          {err: node.ErrNoSpace, code: storagev1.ErrorCode_ERROR_CODE_NO_SPACE},
	"node.ErrQuota":            {err: node.ErrQuota, code: storagev1.ErrorCode_ERROR_CODE_NO_SPACE},
	"node.ErrReadOnly":         {err: node.ErrReadOnly, code: storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED},
	"node.ErrIO":               {err: node.ErrIO, code: storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED},
	"node.FailureError":        {err: &node.FailureError{Node: "n2", Err: node.ErrQuota}, code: storagev1.ErrorCode_ERROR_CODE_NO_SPACE},
	"node.ErrOverloaded":       {err: node.ErrOverloaded, code: storagev1.ErrorCode_ERROR_CODE_OVERLOADED},
	"node.ErrOffsetOutOfRange": {err: node.ErrOffsetOutOfRange, code: storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE},
	"node.ErrStopping":         {err: node.ErrStopping, code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	"node.NotLeaderError":      {err: &node.NotLeaderError{Leader: "n2"}, code: storagev1.ErrorCode_ERROR_CODE_NOT_LEADER},
	"node.EpochError":          {err: &node.EpochError{Asked: 1, Current: 2}, code: storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH},
	"node.ErrNoColdStorage":    {err: node.ErrNoColdStorage, code: storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE},
	// Of placements, which have one answer; see placementError.
	"node.ErrReplicas":  {err: node.ErrReplicas, inside: true},
	"node.RemovedError": {err: &node.RemovedError{Topics: []uuid.UUID{{}}}, inside: true},

	"replica.ErrNotLeader":       {err: replica.ErrNotLeader, code: storagev1.ErrorCode_ERROR_CODE_NOT_LEADER},
	"replica.ErrNotReady":        {err: replica.ErrNotReady, code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	"replica.ErrUnknownOutcome":  {err: replica.ErrUnknownOutcome, code: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME},
	"replica.ErrStopped":         {err: replica.ErrStopped, code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	"replica.ErrStartOutOfRange": {err: replica.ErrStartOutOfRange, code: storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE},
	"replica.ErrTermTooLarge":    {err: replica.ErrTermTooLarge, code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	"replica.FencedError":        {err: &replica.FencedError{}, code: storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER},

	"check.Error": {err: &check.Error{Code: storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE}, code: storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE},

	// The node makes ErrDamaged, ErrDisk, ErrOffsetOutOfRange or ErrStopping of
	// these.
	"raftlog.ErrDamaged":          {err: raftlog.ErrDamaged, inside: true},
	"raftlog.ErrFailed":           {err: raftlog.ErrFailed, inside: true},
	"raftlog.ErrSyncFailed":       {err: raftlog.ErrSyncFailed, inside: true},
	"raftlog.ErrInvalid":          {err: raftlog.ErrInvalid, inside: true},
	"raftlog.ErrOffsetOutOfRange": {err: raftlog.ErrOffsetOutOfRange, inside: true},
	"raftlog.ErrClosed":           {err: raftlog.ErrClosed, inside: true},
	"raftlog.ErrVersion":          {err: raftlog.ErrVersion, inside: true},
	// A pass goes on with the next partition.
	"raftlog.ErrReplaced": {err: raftlog.ErrReplaced, inside: true},

	"cold.ErrUnavailable": {err: cold.ErrUnavailable, code: storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE},
	"cold.ErrPending":     {err: cold.ErrPending, code: storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE},
	"cold.ErrDamaged":     {err: cold.ErrDamaged, code: storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED},
	"cold.ErrLost":        {err: cold.ErrLost, code: storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED},

	"producer.Error":         {err: &producer.Error{Fault: producer.TooOld}, code: storagev1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE},
	"producer.ErrStaleGuard": {err: producer.ErrStaleGuard, code: storagev1.ErrorCode_ERROR_CODE_STALE_GUARD},
	"producer.ErrBadGuard":   {err: producer.ErrBadGuard, code: storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST},
	"producer.ErrBadBatch":   {err: producer.ErrBadBatch, code: storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD},
}

// No error of the packages below is forgotten in domainErrors, and none that
// comes here falls through the table.
func TestEveryErrorHasACode(t *testing.T) {
	for _, name := range []string{"node", "replica", "raftlog", "check", "cold", "producer"} {
		for _, declared := range errorsOf(t, filepath.Join("..", name)) {
			require.Contains(t, domainErrors, name+"."+declared, "give it a code, or say why it never gets here")
		}
	}
	for name, e := range domainErrors {
		code, known := codeOf(fmt.Errorf("append to orders/3: %w", e.err))
		require.Equal(t, !e.inside, known, name)
		if known {
			require.Equal(t, e.code, code, name)
		}
	}
}

// errorsOf are the exported error variables and error types of a package.
func errorsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "Error" && d.Recv != nil {
					receiver := d.Recv.List[0].Type
					if star, ok := receiver.(*ast.StarExpr); ok {
						receiver = star.X
					}
					if name := receiver.(*ast.Ident).Name; ast.IsExported(name) {
						names = append(names, name)
					}
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if values, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						for _, name := range values.Names {
							if strings.HasPrefix(name.Name, "Err") {
								names = append(names, name.Name)
							}
						}
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

func TestPartitionErrors(t *testing.T) {
	require.Nil(t, partitionError(nil))

	out := partitionError(fmt.Errorf("fetch: %w", &node.NotLeaderError{Leader: "n2", Epoch: 7}))
	require.Equal(t, storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, out.GetCode())
	require.Equal(t, "n2", out.GetLeader().GetNode())
	require.Equal(t, int32(7), out.GetLeader().GetEpoch())
	out = partitionError(&node.NotLeaderError{Epoch: 7})
	require.Equal(t, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, out.GetCode(), "nobody to be sent to")

	out = partitionError(&node.EpochError{Asked: 3, Current: 2})
	require.Equal(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, out.GetCode())

	out = partitionError(&check.Error{Code: storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD, Record: 0, Reason: "no key"})
	require.NotNil(t, out.Record)
	require.Zero(t, out.GetRecord())
	out = partitionError(&check.Error{Code: storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD, Record: -1, Reason: "no bytes"})
	require.Nil(t, out.Record)

	// What is under way when something fails may be there all the same: that is
	// what the caller has to know first.
	for _, cause := range []error{node.ErrDisk, node.ErrDamaged, replica.ErrStopped, context.Canceled} {
		out = partitionError(fmt.Errorf("%w: %w", replica.ErrUnknownOutcome, cause))
		require.Equal(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME, out.GetCode())
	}
	out = partitionError(fmt.Errorf("open: %w", context.Canceled))
	require.Equal(t, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, out.GetCode())

	out = partitionError(errors.New("nobody knows"))
	require.Equal(t, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, out.GetCode())
	require.Equal(t, node.ErrDisk.Error(), out.GetMessage())
}

func TestErrorsKeepFilesToThemselves(t *testing.T) {
	for sentinel, code := range map[error]storagev1.ErrorCode{
		node.ErrDamaged:                  storagev1.ErrorCode_ERROR_CODE_DAMAGED,
		node.ErrDisk:                     storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED,
		replica.ErrUnknownOutcome:        storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME,
		cold.ErrUnavailable:              storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE,
		cold.ErrLost:                     storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED,
		errors.New("of an unknown kind"): storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED,
	} {
		got := partitionError(fmt.Errorf("fetch t/0: %w: open /data/0.log: gone", sentinel))
		require.Equal(t, code, got.GetCode())
		require.NotContains(t, got.GetMessage(), "/data")
	}
	for cause, told := range map[error]string{
		node.ErrDamaged:                       "the replica on node n2 is damaged",
		node.ErrNoSpace:                       "no space left on the disk of node n2",
		node.ErrQuota:                         "the quota on the disk of node n2 is used up",
		node.ErrReadOnly:                      "the disk of node n2 is read-only",
		node.ErrIO:                            "the disk of node n2 reported an I/O error",
		fmt.Errorf("%w: short", node.ErrDisk): "the disk of node n2 failed",
		fmt.Errorf("%w: again", node.ErrReadOnly): "the disk of node n2 is read-only",
	} {
		got := partitionError(fmt.Errorf("fetch t/0: %w", &node.FailureError{Node: "n2", Err: fmt.Errorf("%w: /data/0.log", cause)}))
		require.Equal(t, told, got.GetMessage())
	}
	got := partitionError(fmt.Errorf("fetch t/0: %w: 5 is not in 0..3", node.ErrOffsetOutOfRange))
	require.Equal(t, "fetch t/0: offset out of range: 5 is not in 0..3", got.GetMessage())
}
