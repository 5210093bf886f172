package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/storagetest"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func (p *process) join(member string, topics ...*coordinatorv1.Topic) *coordinatorv1.JoinResponse {
	p.Helper()
	req := &coordinatorv1.JoinRequest{Caller: key, Group: "g", MemberId: member}
	for _, t := range topics {
		req.TopicIds = append(req.TopicIds, t.Id)
	}
	var resp *coordinatorv1.JoinResponse
	retry(p.T, func() (err error) {
		resp, err = p.groups.Join(p.Context(), req)
		return err
	})
	return resp
}

func (p *process) heartbeat(member string) *coordinatorv1.HeartbeatResponse {
	p.Helper()
	var resp *coordinatorv1.HeartbeatResponse
	retry(p.T, func() (err error) {
		resp, err = p.groups.Heartbeat(p.Context(), &coordinatorv1.HeartbeatRequest{Caller: key, Group: "g", MemberId: member})
		return err
	})
	return resp
}

func (p *process) assignment(member string) *coordinatorv1.GetAssignmentResponse {
	p.Helper()
	var resp *coordinatorv1.GetAssignmentResponse
	retry(p.T, func() (err error) {
		resp, err = p.groups.GetAssignment(p.Context(), &coordinatorv1.GetAssignmentRequest{Caller: key, Group: "g", MemberId: member})
		return err
	})
	return resp
}

// partitions is an assignment as text.
func partitions(list []*coordinatorv1.Assigned) string {
	var names []string
	for _, a := range list {
		names = append(names, fmt.Sprintf("%s/%d", a.Topic, a.Partition))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestMembersShareAndSurviveAnOwner(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	orders, billing := a.create("orders", 3), a.create("billing", 1)

	first := a.join("", orders, billing)
	require.Regexp(t, "^m_[0-9a-f]{32}$", first.MemberId)
	require.EqualValues(t, 1, first.Generation)
	require.Equal(t, "billing/0 orders/0 orders/1 orders/2", partitions(first.Assignment))
	require.False(t, a.heartbeat(first.MemberId).UnknownMember)

	second := a.join("", orders)
	require.NotEqual(t, first.MemberId, second.MemberId)
	require.EqualValues(t, 2, second.Generation)
	require.Equal(t, "orders/1 orders/2", partitions(second.Assignment))
	require.EqualValues(t, 2, a.heartbeat(first.MemberId).Generation)
	require.Equal(t, "billing/0 orders/0", partitions(a.assignment(first.MemberId).Assignment))
	// The same again changes nothing.
	again := a.join(second.MemberId, orders)
	require.EqualValues(t, 2, again.Generation)
	require.Equal(t, partitions(second.Assignment), partitions(again.Assignment))

	a.stop()
	b := c.start("b", "coordinator")
	for member, want := range map[string]string{first.MemberId: "billing/0 orders/0", second.MemberId: "orders/1 orders/2"} {
		beat := b.heartbeat(member)
		require.False(t, beat.UnknownMember)
		require.EqualValues(t, 2, beat.Generation)
		require.Equal(t, want, partitions(b.assignment(member).Assignment))
	}

	// Who names itself commits what is its own, as long as it is.
	commit := func(member string, generation int64, partition int32) error {
		_, err := b.offsets.CommitOffsets(t.Context(), &coordinatorv1.CommitOffsetsRequest{
			Caller: key, Group: "g", MemberId: member, Generation: generation,
			Offsets: []*coordinatorv1.CommittedOffset{{TopicId: orders.Id, Partition: partition, Offset: 7}},
		})
		return err
	}
	require.NoError(t, commit(first.MemberId, 2, 0))
	require.ErrorIs(t, commit(first.MemberId, 1, 0), group.ErrStaleMember)
	require.ErrorIs(t, commit(first.MemberId, 2, 1), group.ErrStaleMember)
	require.ErrorIs(t, commit("m_none", 2, 0), group.ErrStaleMember)
	require.NoError(t, b.commit("g", &coordinatorv1.CommittedOffset{TopicId: orders.Id, Partition: 1, Offset: 3}))

	leave := &coordinatorv1.LeaveRequest{Caller: key, Group: "g", MemberId: first.MemberId}
	for range 2 {
		_, err := b.groups.Leave(t.Context(), leave)
		require.NoError(t, err)
	}
	require.True(t, b.heartbeat(first.MemberId).UnknownMember)
	got := b.assignment(second.MemberId)
	require.EqualValues(t, 3, got.Generation)
	require.Equal(t, "orders/0 orders/1 orders/2", partitions(got.Assignment))
	_, err := b.groups.GetAssignment(t.Context(), &coordinatorv1.GetAssignmentRequest{Caller: key, Group: "g", MemberId: first.MemberId})
	require.ErrorIs(t, err, group.ErrUnknownMember)

	_, err = b.groups.Leave(t.Context(), &coordinatorv1.LeaveRequest{Caller: key, Group: "g", MemberId: second.MemberId})
	require.NoError(t, err)
	b.stop()
	d := c.start("d", "coordinator")
	require.EqualValues(t, 4, d.heartbeat(second.MemberId).Generation, "a generation is never given twice")
	require.EqualValues(t, 5, d.join(second.MemberId, orders).Generation)
}

func TestWhatCannotJoin(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", "coordinator", "storage")
	orders := a.create("orders", 1)
	a.join("", orders)
	for name, req := range map[string]*coordinatorv1.JoinRequest{
		"no caller":      {Group: "g", TopicIds: [][]byte{orders.Id}},
		"no group":       {Caller: key, TopicIds: [][]byte{orders.Id}},
		"no topics":      {Caller: key, Group: "g"},
		"many topics":    {Caller: key, Group: "g", TopicIds: slices.Repeat([][]byte{orders.Id}, 101)},
		"short topic id": {Caller: key, Group: "g", TopicIds: [][]byte{[]byte("short")}},
		"long member id": {Caller: key, Group: "g", TopicIds: [][]byte{orders.Id}, MemberId: strings.Repeat("m", 201)},
	} {
		_, err := a.groups.Join(t.Context(), req)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err), "%s: %v", name, err)
	}
	_, err := a.groups.Join(t.Context(), &coordinatorv1.JoinRequest{Caller: key, Group: "g", TopicIds: [][]byte{make([]byte, 16)}})
	require.ErrorIs(t, err, meta.ErrTopicNotFound)
}

func TestGroupsBelongToTheFirstKey(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", "coordinator", "storage")
	orders := a.create("orders", 2)
	ctx := t.Context()
	other := &coordinatorv1.Caller{Owner: "key_2"}
	admin := &coordinatorv1.Caller{Owner: "key_3", Admin: true}
	commit := func(caller *coordinatorv1.Caller, name string) error {
		_, err := a.offsets.CommitOffsets(ctx, &coordinatorv1.CommitOffsetsRequest{
			Caller: caller, Group: name, Offsets: []*coordinatorv1.CommittedOffset{{TopicId: orders.Id, Offset: 1}},
		})
		return err
	}
	join := func(caller *coordinatorv1.Caller, name, member string) error {
		_, err := a.groups.Join(ctx, &coordinatorv1.JoinRequest{Caller: caller, Group: name, MemberId: member, TopicIds: [][]byte{orders.Id}})
		return err
	}
	retry(t, func() error { return commit(key, "committed") })
	retry(t, func() error { return join(key, "joined", "m") })
	// Whoever asks first of what is nobody's learns that there is nothing, and owns nothing.
	retry(t, func() error {
		_, err := a.offsets.FetchOffsets(ctx, &coordinatorv1.FetchOffsetsRequest{Caller: other, Group: "nobody's"})
		return err
	})
	require.NoError(t, commit(key, "nobody's"))

	for _, name := range []string{"committed", "joined", "nobody's"} {
		calls := map[string]func(caller *coordinatorv1.Caller) error{
			"commit": func(caller *coordinatorv1.Caller) error { return commit(caller, name) },
			"join":   func(caller *coordinatorv1.Caller) error { return join(caller, name, "n") },
			"offsets": func(caller *coordinatorv1.Caller) error {
				_, err := a.offsets.FetchOffsets(ctx, &coordinatorv1.FetchOffsetsRequest{Caller: caller, Group: name})
				return err
			},
			"heartbeat": func(caller *coordinatorv1.Caller) error {
				_, err := a.groups.Heartbeat(ctx, &coordinatorv1.HeartbeatRequest{Caller: caller, Group: name, MemberId: "m"})
				return err
			},
			"assignment": func(caller *coordinatorv1.Caller) error {
				_, err := a.groups.GetAssignment(ctx, &coordinatorv1.GetAssignmentRequest{Caller: caller, Group: name, MemberId: "n"})
				return err
			},
			"leave": func(caller *coordinatorv1.Caller) error {
				_, err := a.groups.Leave(ctx, &coordinatorv1.LeaveRequest{Caller: caller, Group: name, MemberId: "n"})
				return err
			},
		}
		for _, what := range []string{"join", "commit", "offsets", "heartbeat", "assignment", "leave"} {
			require.ErrorIs(t, calls[what](other), group.ErrNotOwner, "%s of %s", what, name)
			require.NoError(t, calls[what](admin), "%s of %s", what, name)
		}
	}

	// A member is bound to its key, also within a group of another.
	require.NoError(t, join(admin, "joined", "theirs"))
	require.ErrorIs(t, join(key, "joined", "theirs"), group.ErrNotMembersKey)
	_, err := a.groups.Heartbeat(ctx, &coordinatorv1.HeartbeatRequest{Caller: key, Group: "joined", MemberId: "theirs"})
	require.ErrorIs(t, err, group.ErrNotMembersKey)
	require.Equal(t, errs.PermissionDenied, errs.KindOf(err))
}

func TestTheSilentAreEvicted(t *testing.T) {
	for timeout := time.Second; !evictsTheSilent(t, timeout); timeout *= 2 {
	}
}

// evictsTheSilent has one member of two stay away, and then both. It is false when the
// machine stood still for so long that the one who stays could not be heard of in time.
func evictsTheSilent(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	c := newCluster(t)
	cfg := config()
	cfg.MemberTimeout, cfg.ExpireInterval = timeout, 20*time.Millisecond
	a := c.startWith(cfg, "a", "coordinator", "storage")
	orders := a.create("orders", 4)
	heard := time.Now()
	stays, goes := a.join("", orders), a.join("", orders)
	for {
		asked := time.Now()
		beat := a.heartbeat(stays.MemberId)
		if time.Since(heard) >= timeout {
			return false
		}
		heard = asked
		require.False(t, beat.UnknownMember)
		require.EqualValues(t, 2, goes.Generation)
		if beat.Generation != 2 {
			require.EqualValues(t, 3, beat.Generation)
			break
		}
	}
	resp, err := a.groups.GetAssignment(t.Context(), &coordinatorv1.GetAssignmentRequest{Caller: key, Group: "g", MemberId: stays.MemberId})
	gone := a.heartbeat(goes.MemberId)
	if time.Since(heard) >= timeout {
		return false
	}
	require.NoError(t, err)
	require.Equal(t, "orders/0 orders/1 orders/2 orders/3", partitions(resp.Assignment))
	require.True(t, gone.UnknownMember)
	// Nobody asks, and still the last one goes.
	eventually(t, func() bool { return a.heartbeat(goes.MemberId).Generation == 4 })
	return true
}

func TestGroupsFollowTheirTopics(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	orders, billing := a.create("orders", 1), a.create("billing", 2)
	member := a.join("", orders, billing)
	require.Equal(t, "billing/0 billing/1 orders/0", partitions(member.Assignment))

	_, err := a.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "billing"})
	require.NoError(t, err)
	eventually(t, func() bool { return a.heartbeat(member.MemberId).Generation == 2 })
	require.Equal(t, "orders/0", partitions(a.assignment(member.MemberId).Assignment))

	c.grow("orders", 3)
	eventually(t, func() bool { return a.heartbeat(member.MemberId).Generation == 3 })
	require.Equal(t, "orders/0 orders/1 orders/2", partitions(a.assignment(member.MemberId).Assignment))

	// What happens while nobody owns the shard is found when somebody does.
	a.stop()
	c.grow("orders", 4)
	b := c.start("b", "coordinator")
	eventually(t, func() bool { return b.heartbeat(member.MemberId).Generation == 4 })
	require.Equal(t, "orders/0 orders/1 orders/2 orders/3", partitions(b.assignment(member.MemberId).Assignment))
}

// grow gives a topic more partitions, on the nodes that it has.
func (c *cluster) grow(name string, partitions int) {
	c.t.Helper()
	got, err := c.etcd.Get(c.t.Context(), "/sluice/topics/"+name)
	require.NoError(c.t, err)
	require.Len(c.t, got.Kvs, 1)
	row := &persistv1.TopicRow{}
	require.NoError(c.t, proto.Unmarshal(got.Kvs[0].Value, row))
	for len(row.Partitions) < partitions {
		row.Partitions = append(row.Partitions, row.Partitions[0])
	}
	value, err := proto.Marshal(row)
	require.NoError(c.t, err)
	_, err = c.etcd.Put(c.t.Context(), "/sluice/topics/"+name, string(value))
	require.NoError(c.t, err)
}

func TestOffsetsOfAllGroupsAreReset(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	orders, billing := a.create("orders", 2), a.create("billing", 1)
	both := []*process{a, c.start("b", "coordinator")}
	// What was done of a shard that changes hands meanwhile is not told.
	w := a.watch()
	w.until(func() bool {
		owned := map[string]int{}
		for _, node := range w.shards {
			owned[node]++
		}
		return owned["a"] == 2 && owned["b"] == 2
	})
	on := func(do func(p *process) error) {
		t.Helper()
		retry(t, func() (err error) {
			for _, p := range both {
				if err = do(p); errs.KindOf(orNil(err)) != errs.Unavailable {
					return err
				}
			}
			return err
		})
	}
	const groups = 10
	for i := range groups {
		on(func(p *process) error {
			return p.commit(fmt.Sprintf("g%d", i),
				&coordinatorv1.CommittedOffset{TopicId: orders.Id, Offset: 70, Metadata: "m"},
				&coordinatorv1.CommittedOffset{TopicId: orders.Id, Partition: 1, Offset: 5},
				&coordinatorv1.CommittedOffset{TopicId: billing.Id, Offset: 9})
		})
	}
	req := &coordinatorv1.ResetOffsetsRequest{TopicId: orders.Id, Offsets: []int64{3, 5}}
	var affected, reset int64
	eventually(t, func() bool {
		for _, p := range both {
			resp, err := p.groups.ResetOffsets(t.Context(), req)
			require.NoError(t, err)
			affected += resp.GroupsAffected
			reset += resp.EntriesReset
			require.EqualValues(t, 4, resp.ShardCount)
			req.ExceptShards = append(req.ExceptShards, resp.Shards...)
		}
		return len(req.ExceptShards) == 4
	})
	require.EqualValues(t, groups, affected)
	require.EqualValues(t, 2*groups, reset)
	for i := range groups {
		var got []*coordinatorv1.CommittedOffset
		on(func(p *process) (err error) {
			got, err = p.fetch(fmt.Sprintf("g%d", i))
			return err
		})
		require.Len(t, got, 3)
		for _, c := range got {
			switch {
			case string(c.TopicId) == string(billing.Id):
				require.EqualValues(t, 9, c.Offset)
			case c.Partition == 0:
				require.EqualValues(t, 3, c.Offset)
				require.Empty(t, c.Metadata)
			default:
				require.EqualValues(t, 5, c.Offset)
			}
		}
	}
	_, err := a.groups.ResetOffsets(t.Context(), &coordinatorv1.ResetOffsetsRequest{TopicId: orders.Id, Offsets: []int64{-1}})
	require.Equal(t, errs.InvalidArgument, errs.KindOf(err))
}

// A deleted group has lost its offsets and its owner, and for the next owner of its
// shard too; its generations go on.
func TestAGroupIsDeleted(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	const partitions = 10_000 // more offsets than one write removes
	orders := a.create("orders", partitions)
	other := &coordinatorv1.Caller{Owner: "key_2"}
	remove := func(p *process, caller *coordinatorv1.Caller) error {
		_, err := p.groups.DeleteGroup(t.Context(), &coordinatorv1.DeleteGroupRequest{Caller: caller, Group: "g"})
		return err
	}
	leave := func(p *process, member string) {
		_, err := p.groups.Leave(t.Context(), &coordinatorv1.LeaveRequest{Caller: key, Group: "g", MemberId: member})
		require.NoError(t, err)
	}

	member := a.join("", orders).MemberId
	for first := int32(0); first < partitions; first += partitions / 4 {
		offsets := make([]*coordinatorv1.CommittedOffset, partitions/4)
		for i := range offsets {
			offsets[i] = &coordinatorv1.CommittedOffset{TopicId: orders.Id, Partition: first + int32(i), Offset: 5}
		}
		require.NoError(t, a.commit("g", offsets...))
	}
	require.ErrorIs(t, remove(a, other), group.ErrNotOwner)
	require.ErrorIs(t, remove(a, key), group.ErrGroupNotEmpty)
	leave(a, member)
	committed, err := a.fetch("g")
	require.NoError(t, err)
	require.Len(t, committed, partitions, "a refusal removes nothing")
	require.NoError(t, remove(a, key))
	require.ErrorIs(t, remove(a, key), group.ErrUnknownGroup)

	gone := func(p *process) {
		t.Helper()
		require.True(t, p.heartbeat(member).UnknownMember)
		committed, err := p.fetch("g")
		require.NoError(t, err)
		require.Empty(t, committed)
		_, err = p.offsets.CommitOffsets(t.Context(), &coordinatorv1.CommitOffsetsRequest{
			Caller: key, Group: "g", MemberId: member, Generation: 1,
			Offsets: []*coordinatorv1.CommittedOffset{{TopicId: orders.Id, Offset: 7}},
		})
		require.ErrorIs(t, err, group.ErrStaleMember)
	}
	gone(a)
	a.stop()
	b := c.start("b", "coordinator")
	gone(b)

	// It may be anybody's, and who was a member before has nothing of it.
	req := &coordinatorv1.JoinRequest{Caller: other, Group: "g", TopicIds: [][]byte{orders.Id}}
	for generation := range int64(2) {
		got, err := b.groups.Join(t.Context(), req)
		require.NoError(t, err)
		require.EqualValues(t, 3+generation, got.Generation, "2 was the highest before")
	}
	_, err = b.groups.Heartbeat(t.Context(), &coordinatorv1.HeartbeatRequest{Caller: key, Group: "g", MemberId: member})
	require.ErrorIs(t, err, group.ErrNotOwner)
}

func orNil(err error) error {
	if err == nil {
		return errs.New(errs.Internal, "NONE", "no error")
	}
	return err
}

// TestNoPartitionHasTwoMembersInAGeneration has members come and go through
// coordinators that come and go, over a log whose appends are refused, lost or
// late, and looks at every answer that any of them got.
func TestNoPartitionHasTwoMembersInAGeneration(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	cfg := config()
	cfg.Shards = 1
	cfg.ShardAppendTimeout, cfg.ShardLoadTimeout = 100*time.Millisecond, time.Second
	// Members that do not come back soon are evicted, too.
	cfg.MemberTimeout, cfg.ExpireInterval = 60*time.Millisecond, 10*time.Millisecond
	a := c.startWith(cfg, "a", "coordinator")
	orders := a.create("orders", 6)
	a.join("first", orders)

	var random struct {
		sync.Mutex
		*rand.Rand
	}
	random.Rand = rand.New(rand.NewPCG(1, 2))
	draw := func(n int) int {
		random.Lock()
		defer random.Unlock()
		return random.IntN(n)
	}
	c.storage.OnAppend(func(storagetest.Key, int64) storagetest.Fault {
		return [...]storagetest.Fault{
			storagetest.None, storagetest.None, storagetest.None, storagetest.None, storagetest.None, storagetest.None,
			storagetest.Refuse, storagetest.LoseAnswer, storagetest.LoseRequest, storagetest.Late,
		}[draw(10)]
	})

	var seen struct {
		sync.Mutex
		owners  map[string]string
		answers int
	}
	seen.owners = make(map[string]string)
	note := func(member string, generation int64, list []*coordinatorv1.Assigned) {
		seen.Lock()
		defer seen.Unlock()
		seen.answers++
		for _, a := range list {
			at := fmt.Sprintf("%d in generation %d", a.Partition, generation)
			if other := seen.owners[at]; other != "" && other != member {
				t.Errorf("partition %s is %s's and %s's", at, other, member)
			}
			seen.owners[at] = member
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			member := fmt.Sprintf("m%d", i)
			generation := int64(0)
			for done := 0; done < 60 && ctx.Err() == nil; {
				p := c.coordinator(draw)
				call, cancelCall := context.WithTimeout(ctx, time.Second)
				var err error
				switch draw(4) {
				case 0, 1:
					var resp *coordinatorv1.JoinResponse
					if resp, err = p.Join(call, &coordinatorv1.JoinRequest{Caller: key, Group: "g", MemberId: member, TopicIds: [][]byte{orders.Id}}); err == nil {
						note(member, resp.Generation, resp.Assignment)
						if resp.Generation < generation {
							t.Errorf("generation %d after %d", resp.Generation, generation)
						}
						generation = resp.Generation
					}
				case 2:
					var resp *coordinatorv1.GetAssignmentResponse
					if resp, err = p.GetAssignment(call, &coordinatorv1.GetAssignmentRequest{Caller: key, Group: "g", MemberId: member}); err == nil {
						note(member, resp.Generation, resp.Assignment)
						if resp.Generation < generation {
							t.Errorf("generation %d after %d", resp.Generation, generation)
						}
						generation = resp.Generation
					}
				default:
					_, err = p.Leave(call, &coordinatorv1.LeaveRequest{Caller: key, Group: "g", MemberId: member})
				}
				cancelCall()
				if err == nil {
					done++
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		working.Wait()
		close(ended)
	}()
	for life := 0; ; life++ {
		b := c.startWith(cfg, fmt.Sprintf("b%d", life), "coordinator")
		select {
		case <-ended:
			require.Greater(t, seen.answers, 50)
			return
		case <-time.After(200 * time.Millisecond):
		}
		c.storage.Deliver()
		if life%2 == 0 {
			b.stop()
			c.drop(b.id)
		} else {
			a.stop()
			c.drop(a.id)
			a = b
		}
	}
}

// coordinator returns any of the coordinators that run.
func (c *cluster) coordinator(draw func(int) int) coordinatorv1.GroupServiceClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id := range c.conns {
		if id != "s" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return coordinatorv1.NewGroupServiceClient(c.conns[ids[draw(len(ids))]])
}

func (c *cluster) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, id)
}
