package grpcdoor

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// Backend is what the door asks before a call gets memory.
type Backend interface {
	// Secret finds the secret in the values of both headers.
	Secret(authorization, esKey []string) (string, error)
	// Known says that Authenticate will let a secret in without asking anybody.
	Known(secret string) bool
	// Authenticate resolves a secret, which is empty when none came.
	Authenticate(ctx context.Context, secret string) (grants.Caller, error)
	// Await and AwaitGroup wait for a first record, and take no memory for it.
	Await(ctx context.Context, caller grants.Caller, r backend.Read) error
	AwaitGroup(ctx context.Context, caller grants.Caller, group string, r backend.Read) error
}

// Config bounds what calls may cost.
type Config struct {
	// MaxMessageBytes is the largest message of a request, inflated.
	MaxMessageBytes int
	// MaxElements is how many elements the lists and maps of a request may have.
	MaxElements int
	// MaxFetchRecords and MaxFetchBytes limit what one read answers, but for a
	// first record that is larger.
	MaxFetchRecords, MaxFetchBytes int
	// BudgetBytes is how many bytes there are of each budget.
	BudgetBytes int64
	// BudgetTimeout is how long a call waits for others to leave room.
	BudgetTimeout time.Duration
	// MessageTimeout is how long a message may take to arrive, and StallTimeout how
	// long its sender may stop; so long may also the taker of an answer.
	MessageTimeout, StallTimeout time.Duration
	// StallGrace is how long a client may stop while others wait for the memory
	// that its call holds.
	StallGrace time.Duration
	// HandshakeTimeout is how long a connection may take to become one of HTTP/2.
	HandshakeTimeout time.Duration
	// PingAfter is after how long a silence a client is asked whether it is there,
	// and PingTimeout how long it has for an answer.
	PingAfter, PingTimeout time.Duration
	// Grace is how long calls under way may take to end at a stop.
	Grace time.Duration
}

// Deps are what the door stands on.
type Deps struct {
	Logger  *slog.Logger
	Backend Backend
	// CallerOf returns who makes a call, from the context of its handler.
	CallerOf func(ctx context.Context) grants.Caller
	// Requests and Answers are the budgets, which other doors may share.
	Requests, Answers *semaphore.Weighted
	// Surveys lets so many calls at once put a survey together: an answer that
	// grows with what the server has. IsSurvey says which methods do.
	Surveys  *semaphore.Weighted
	IsSurvey func(method string) bool
	// Registerer takes the door's series; nil shows them to nobody.
	Registerer prometheus.Registerer
	// TLS is spoken with clients unless it is nil.
	TLS *tls.Config
}

const (
	// streamWindow is how much of a message a client may send before any of it is
	// read, and connectionWindow how much on all streams of a connection.
	streamWindow     = 128 << 10
	connectionWindow = 1 << 20
	// maxHeaderBytes is the most that the metadata of a call may take.
	maxHeaderBytes = 16 << 10
	// arrival is what a stream takes before its message is read.
	arrival = streamWindow + maxHeaderBytes
	// callBytes is about what a call takes beside its message and answer:
	// goroutines, frames, contexts.
	callBytes = 32 << 10
	// maxStreams is how many calls one connection has at once; more wait at the
	// client.
	maxStreams = 128
	// maxOpenMessage is the largest message to methods that everybody may call.
	maxOpenMessage = 16 << 10
	// lobbyPart is the part of the budget that there is once more for calls that
	// have none yet: their callers are not known, or they wait for some. As much
	// there is for the methods that everybody may call, and for those of them that
	// are streams: these may be open for ever, and whoever asks for the server's
	// health shall have an answer all the same.
	lobbyPart = 8
)

// Door bounds the calls of one gRPC server.
type Door struct {
	cfg    Config
	deps   Deps
	server *rpc.Server

	requests, answers *budget.Budget
	// lobby, open and watches are bytes, each call counts arrival; calls are calls.
	lobby, open, watches, calls *semaphore.Weighted
	metrics                     *metrics

	// How many calls are under way.
	under atomic.Int64
	// Who reads large messages.
	reading sync.WaitGroup
	// The methods whose calls are streams.
	streaming map[string]bool
	// Where the elements of a message are, by its descriptor.
	shapes sync.Map

	// mu is never taken while a conn's is held.
	mu struct {
		sync.Mutex
		stopping bool
		conns    map[*conn]struct{}
	}
}

var (
	errRequestsBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of requests are under way").WithRetryAfter(time.Second)
	errAnswersBusy  = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of answers are under way").WithRetryAfter(time.Second)
	errSurveysBusy  = errs.New(errs.Unavailable, "OVERLOADED", "too many surveys of the server are under way").WithRetryAfter(time.Second)
	errCallsBusy    = errs.New(errs.Unavailable, "OVERLOADED", "too many calls are under way").WithRetryAfter(time.Second)
	errStopping     = errs.New(errs.Unavailable, "STOPPING", "the server is stopping")
	errSlow         = errs.New(errs.DeadlineExceeded, "MESSAGE_TIMEOUT", "the message did not arrive in time")
	// errTooLarge is for the methods that everybody may call.
	errTooLarge  = errs.New(errs.ResourceExhausted, "MESSAGE_TOO_LARGE", "the message is too large")
	errMalformed = errs.New(errs.InvalidArgument, "MALFORMED_MESSAGE", "the message is not of the method's type")
	// errTooManyElements is worded where the limit is known.
	errTooManyElements = errs.New(errs.InvalidArgument, "TOO_MANY_ELEMENTS", "the message has too many elements")
	// errTwoMessages is that a call has more messages than its method takes.
	errTwoMessages = errs.New(errs.InvalidArgument, "MALFORMED_MESSAGE", "the call has more than the one message that its method takes")
)

// New returns a door. It starts nothing.
func New(cfg Config, deps Deps) *Door {
	d := &Door{
		cfg:     cfg,
		deps:    deps,
		lobby:   semaphore.NewWeighted(max(cfg.BudgetBytes/lobbyPart, arrival)),
		open:    semaphore.NewWeighted(max(cfg.BudgetBytes/lobbyPart, arrival)),
		watches: semaphore.NewWeighted(max(cfg.BudgetBytes/lobbyPart, arrival)),
		calls:   semaphore.NewWeighted(max(cfg.BudgetBytes/callBytes, maxStreams)),
	}
	d.requests = budget.New(budget.Config{
		Bytes: deps.Requests, Whole: cfg.BudgetBytes, Patience: cfg.BudgetTimeout, Busy: errRequestsBusy,
		Relieve: d.relieveRequests,
	})
	d.answers = budget.New(budget.Config{
		Bytes: deps.Answers, Whole: cfg.BudgetBytes, Patience: cfg.BudgetTimeout, Busy: errAnswersBusy,
		Relieve: d.relieveAnswers,
	})
	d.mu.conns = make(map[*conn]struct{})
	d.metrics = newMetrics(d, deps.Registerer)
	return d
}
