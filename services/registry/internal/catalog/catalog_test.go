package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
	"github.com/sluiceio/sluice/services/registry/internal/catalog"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// open runs a catalog; stop ends it.
func open(t *testing.T, etcd *clientv3.Client) (c *catalog.Catalog, stop func()) {
	t.Helper()
	c = catalog.New(etcd, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-ended)
		})
	}
	t.Cleanup(stop)
	select {
	case <-c.Known():
	case <-time.After(time.Minute):
		t.Fatal("the catalog does not come to know its rows")
	}
	return c, stop
}

// closedTo is a schema with these properties and no others.
func closedTo(names ...string) string {
	for i, name := range names {
		names[i] = fmt.Sprintf("%q:{}", name)
	}
	return `{"type":"object","properties":{` + strings.Join(names, ",") + `},"additionalProperties":false}`
}

func draft(subject, text string) catalog.Draft {
	return catalog.Draft{Subject: subject, Type: schema.JSONSchema, Text: text}
}

func register(t *testing.T, c *catalog.Catalog, d catalog.Draft) catalog.Version {
	t.Helper()
	v, err := c.Register(t.Context(), d)
	require.NoError(t, err)
	return v
}

func ids(versions []catalog.Version) (ids []int32) {
	for _, v := range versions {
		ids = append(ids, v.GetId())
	}
	return ids
}

func TestIDsAndVersions(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	a1, a2 := register(t, c, draft("a", closedTo("x"))), register(t, c, draft("a", closedTo("x", "y")))
	require.EqualValues(t, 1, a1.GetId())
	require.EqualValues(t, 1, a1.GetVersion())
	require.EqualValues(t, 2, a2.GetId())
	require.EqualValues(t, 2, a2.GetVersion())

	same := register(t, c, draft("a", "\n"+strings.ReplaceAll(closedTo("x"), ":", " : ")))
	require.Equal(t, a1.GetId(), same.GetId(), "the same schema")
	b := register(t, c, draft("b", closedTo("x")))
	require.EqualValues(t, 3, b.GetId(), "of another subject")
	require.EqualValues(t, 1, b.GetVersion())

	list, err := c.List(t.Context(), "", false)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3}, ids(list))
}

func TestIDsAreNeverGivenOutTwice(t *testing.T) {
	etcd := etcdtest.Start(t)
	c, stop := open(t, etcd)
	first := register(t, c, draft("a", closedTo("x")))
	_, err := c.Delete(t.Context(), "a", 0, false)
	require.NoError(t, err)

	// It comes back as what it was.
	again := register(t, c, draft("a", closedTo("x")))
	require.Equal(t, first.GetId(), again.GetId())
	require.EqualValues(t, 2, again.GetVersion())

	_, err = c.Delete(t.Context(), "a", 0, false)
	require.NoError(t, err)
	deleted, err := c.Delete(t.Context(), "a", 0, true)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, deleted)
	stop()

	c, _ = open(t, etcd)
	_, err = c.ByID(t.Context(), first.GetId())
	require.ErrorIs(t, err, catalog.ErrUnknownSchema)
	later := register(t, c, draft("a", closedTo("x")))
	require.EqualValues(t, 2, later.GetId())
	require.EqualValues(t, 3, later.GetVersion())
}

// TestRegistriesAgree has several catalogs register at once.
func TestRegistriesAgree(t *testing.T) {
	etcd := etcdtest.Start(t)
	const catalogs, each = 3, 10
	var all [catalogs]*catalog.Catalog
	for i := range all {
		all[i], _ = open(t, etcd)
	}
	var registering sync.WaitGroup
	var got [catalogs][each]catalog.Version
	for i, c := range all {
		registering.Go(func() {
			for n := range each {
				// All register the same under one subject, and their own under
				// another.
				subject, text := "shared", closedTo("x")
				if n%2 == 1 {
					subject, text = fmt.Sprintf("own-%d", i), closedTo("x", fmt.Sprint(n))
				}
				if subject != "shared" {
					text = closedTo(fmt.Sprint(n))
					subject = fmt.Sprintf("%s-%d", subject, n)
				}
				v, err := c.Register(t.Context(), draft(subject, text))
				if err != nil {
					t.Errorf("register: %v", err)
					return
				}
				got[i][n] = v
				// What was registered is there at once, at every registry.
				if found, err := all[(i+1)%catalogs].Find(t.Context(), subject, catalog.Newest, false); err != nil || found.GetId() != v.GetId() {
					t.Errorf("find %s: %v, %v", subject, found.GetId(), err)
				}
			}
		})
	}
	registering.Wait()
	owner := make(map[int32]string)
	for i := range got {
		for _, v := range got[i] {
			if had, ok := owner[v.GetId()]; ok {
				require.Equal(t, had, v.GetSubject(), "id %d", v.GetId())
			}
			owner[v.GetId()] = v.GetSubject()
		}
	}
	require.Len(t, owner, 1+catalogs*each/2)
}

func TestDelete(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	ctx := t.Context()
	v1, v2 := register(t, c, draft("a", closedTo("x"))), register(t, c, draft("a", closedTo("x", "y")))

	for name, deletion := range map[string]struct {
		subject   string
		number    int32
		permanent bool
		want      error
	}{
		"nothing":       {"b", 0, false, catalog.ErrUnknownSubject},
		"no version":    {"a", 3, false, catalog.ErrUnknownVersion},
		"for good":      {"a", 1, true, catalog.ErrNotDeleted},
		"all, for good": {"a", 0, true, catalog.ErrNotDeleted},
	} {
		_, err := c.Delete(ctx, deletion.subject, deletion.number, deletion.permanent)
		require.ErrorIs(t, err, deletion.want, name)
	}

	deleted, err := c.Delete(ctx, "a", catalog.Newest, false)
	require.NoError(t, err)
	require.Equal(t, []int32{2}, deleted)
	_, err = c.Delete(ctx, "a", 2, false)
	require.ErrorIs(t, err, catalog.ErrDeletedBefore)
	newest, err := c.Find(ctx, "a", catalog.Newest, false)
	require.NoError(t, err)
	require.Equal(t, v1.GetId(), newest.GetId())
	_, err = c.Find(ctx, "a", 2, false)
	require.ErrorIs(t, err, catalog.ErrUnknownVersion)
	hidden, err := c.Find(ctx, "a", 2, true)
	require.NoError(t, err)
	require.True(t, hidden.Deleted)
	// What was written with it can still be read.
	byID, err := c.ByID(ctx, v2.GetId())
	require.NoError(t, err)
	require.Equal(t, v2.GetSchema(), byID.GetSchema())

	deleted, err = c.Delete(ctx, "a", 2, true)
	require.NoError(t, err)
	require.Equal(t, []int32{2}, deleted)
	_, err = c.Find(ctx, "a", 2, true)
	require.ErrorIs(t, err, catalog.ErrUnknownVersion)
}

func TestReferences(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	ctx := t.Context()
	register(t, c, draft("person", `{"type":"object","properties":{"name":{"type":"string"}}}`))
	order := draft("order", `{"type":"object","properties":{"by":{"$ref":"person.json"}}}`)
	_, err := c.Register(ctx, order)
	require.ErrorIs(t, err, schema.ErrInvalid, "without the reference")
	order.References = []catalog.Reference{{Name: "person.json", Subject: "person", Version: 1}}
	register(t, c, order)

	_, err = c.Delete(ctx, "person", 1, false)
	require.ErrorIs(t, err, catalog.ErrReferenced)
	missing := order
	missing.References = []catalog.Reference{{Name: "person.json", Subject: "person", Version: 2}}
	_, err = c.Register(ctx, missing)
	require.ErrorIs(t, err, schema.ErrInvalid)

	// What stands behind a reference is compared too.
	register(t, c, draft("person", `{"type":"object","properties":{"name":{"type":["string","null"]}}}`))
	wider := order
	wider.References = []catalog.Reference{{Name: "person.json", Subject: "person", Version: 2}}
	require.EqualValues(t, 2, register(t, c, wider).GetVersion())
	_, err = c.Check(ctx, order, 0)
	require.NoError(t, err)
	verdict, err := c.Check(ctx, order, catalog.Newest)
	require.NoError(t, err)
	require.Equal(t, []string{"backward-incompatible: new schema narrows the type from null or string to string at 'by.name'"}, verdict.Messages())
}

func TestLevels(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	ctx := t.Context()
	enum := func(values string) string { return `{"enum":[` + values + `]}` }
	for _, row := range []struct {
		level schema.Level
		// Values of the versions in order, and of one more.
		versions []string
		next     string
		ok       bool
	}{
		{schema.LevelNone, []string{"1"}, "2", true},
		{schema.LevelBackward, []string{"1"}, "1,2", true},
		{schema.LevelBackward, []string{"1,2"}, "1", false},
		{schema.LevelForward, []string{"1"}, "1,2", false},
		{schema.LevelForward, []string{"1,2"}, "1", true},
		{schema.LevelFull, []string{"1,2"}, "1", false},
		{schema.LevelFull, []string{"1,2"}, "2,1", true},
		// Against the newest alone, and against all.
		{schema.LevelBackward, []string{"1,2", "1"}, "1,3", true},
		{schema.LevelBackwardTransitive, []string{"1,2", "1"}, "1,3", false},
		{schema.LevelForwardTransitive, []string{"1", "1,2"}, "2", false},
		{schema.LevelFullTransitive, []string{"1", "2"}, "1,2", false},
	} {
		subject := fmt.Sprintf("%s %v %s", row.level, row.versions, row.next)
		none := schema.LevelNone
		require.NoError(t, c.Set(ctx, subject, &none, nil))
		for _, v := range row.versions {
			register(t, c, draft(subject, enum(v)))
		}
		require.NoError(t, c.Set(ctx, subject, &row.level, nil))
		verdict, err := c.Check(ctx, draft(subject, enum(row.next)), 0)
		require.NoError(t, err)
		require.Equal(t, row.ok, verdict.Compatible(), "%s: %v", subject, verdict)
		_, err = c.Register(ctx, draft(subject, enum(row.next)))
		require.Equal(t, row.ok, !errors.Is(err, catalog.ErrIncompatible), subject)
	}
}

func TestSettings(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	ctx := t.Context()
	all, err := c.Settings(ctx, "")
	require.NoError(t, err)
	require.Equal(t, catalog.Settings{Level: schema.LevelBackward, Mode: catalog.ReadWrite}, all)
	own, err := c.Settings(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, catalog.Settings{}, own)

	readOnly, readWrite, wrong := catalog.ReadOnly, catalog.ReadWrite, "WRITEONLY"
	require.ErrorIs(t, c.Set(ctx, "a", nil, &wrong), catalog.ErrMode)
	level := schema.Level("SIDEWAYS")
	require.ErrorIs(t, c.Set(ctx, "a", &level, nil), catalog.ErrLevel)

	require.NoError(t, c.Set(ctx, "", nil, &readOnly))
	_, err = c.Register(ctx, draft("a", "{}"))
	require.ErrorIs(t, err, catalog.ErrReadOnly)
	require.NoError(t, c.Set(ctx, "a", nil, &readWrite))
	register(t, c, draft("a", "{}"))
	_, err = c.Delete(ctx, "b", 0, false)
	require.ErrorIs(t, err, catalog.ErrReadOnly)
}

func TestBadDrafts(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	for name, row := range map[string]struct {
		draft catalog.Draft
		want  error
	}{
		"no subject":          {draft("", "{}"), catalog.ErrSubject},
		"a long subject":      {draft(strings.Repeat("s", 256), "{}"), catalog.ErrSubject},
		"a control character": {draft("a\x00", "{}"), catalog.ErrSubject},
		"no schema":           {draft("a", ""), schema.ErrInvalid},
		"no type":             {catalog.Draft{Subject: "a", Text: "{}"}, schema.ErrInvalid},
		"too much":            {draft("a", `{"title":"`+strings.Repeat("s", schema.MaxBytes)+`"}`), schema.ErrInvalid},
		"a huge number":       {draft("a", `{"minimum":1e999999999}`), schema.ErrInvalid},
		"too deep":            {draft("a", strings.Repeat(`{"not":`, 300)+"{}"+strings.Repeat("}", 300)), schema.ErrInvalid},
		"a remote reference":  {draft("a", `{"$ref":"http://127.0.0.1:1/x.json"}`), schema.ErrInvalid},
		"a file":              {draft("a", `{"$ref":"file:///etc/passwd"}`), schema.ErrInvalid},
		"a circle":            {draft("a", `{"allOf":[{"$ref":"#"}]}`), schema.ErrInvalid},
	} {
		_, err := c.Register(t.Context(), row.draft)
		require.ErrorIs(t, err, row.want, name)
	}
	largest := draft(strings.Repeat("ü", 255), `{"title":"`+strings.Repeat("s", schema.MaxBytes-12)+`"}`)
	register(t, c, largest)
}

func TestFull(t *testing.T) {
	c, _ := open(t, etcdtest.Start(t))
	c.SetMaxBytes(10)
	register(t, c, draft("a", "{}      "))
	register(t, c, draft("b", "{}"))
	_, err := c.Register(t.Context(), draft("c", "{}"))
	require.ErrorIs(t, err, catalog.ErrFull)
	// What is there is still found.
	register(t, c, draft("b", " {} "))
	// Hidden schemas still take room.
	_, err = c.Delete(t.Context(), "b", 0, false)
	require.NoError(t, err)
	_, err = c.Register(t.Context(), draft("c", "{}"))
	require.ErrorIs(t, err, catalog.ErrFull)
	_, err = c.Delete(t.Context(), "b", 0, true)
	require.NoError(t, err)
	register(t, c, draft("c", "{}"))
}
