// Package lease is a process's presence in etcd.
//
// A Session holds one lease for as long as the process lives and binds keys to
// it: who watches those keys sees the process come and go. When the lease is
// lost (a pause, a partition, an operator), the session takes a new one and
// writes its keys again. What an owner had under the old lease is gone for
// good, so owners hold a Grant, which is one lease from its start to its loss:
//
//	grant, err := session.Current(ctx)
//	… put a key with grant.ID …
//	select {
//	case <-grant.Lost():   // stop owning, at once
//	…
//
// A Grant ends no later here than in etcd: its deadline counts from before the
// keep-alive was sent, so that of two processes that both believe they own a
// key at least one has been told otherwise, as long as their clocks run at
// about the same speed. What must hold without any clock needs a fence.
//
// A Watcher follows a prefix: first everything, then each change, and
// everything again whenever etcd has forgotten the changes in between.
//
// The package knows bytes only.
package lease
