package grpcdoor

import "time"

// A stall is what a client holds and has stopped to use, and how to end that.
type stall struct {
	lasts time.Duration
	end   func()
}

// relieveRequests cuts off the call whose message has stalled longest.
func (d *Door) relieveRequests() { d.relieve((*conn).stalledRequest) }

// relieveAnswers closes the connection of the answer that has stalled longest.
func (d *Door) relieveAnswers() { d.relieve((*conn).stalledAnswer) }

// relieve ends the longest stall, if that is long enough.
func (d *Door) relieve(stalled func(*conn) stall) {
	worst := stall{lasts: d.cfg.StallGrace}
	for _, c := range d.connections() {
		if s := stalled(c); s.lasts > worst.lasts {
			worst = s
		}
	}
	if worst.end != nil {
		d.metrics.cut.WithLabelValues("memory").Inc()
		worst.end()
	}
}

// stalledRequest is the longest stall of what holds requests. When the connection
// takes nothing, calls that are cut off keep what they hold until it is closed.
func (c *conn) stalledRequest() (longest stall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.calls) > 0 {
		longest = stall{c.writing.Lasting(), c.hangUp}
	}
	for _, call := range c.mu.calls {
		if lasts, _ := call.owes(); lasts > longest.lasts {
			longest = stall{lasts, func() { call.fail(errRequestsBusy) }}
		}
	}
	return longest
}

func (c *conn) stalledAnswer() (longest stall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.mu.answers {
		if lasts := a.sending.Lasting(); lasts > longest.lasts {
			longest = stall{lasts, c.hangUp}
		}
	}
	return longest
}

// sweep ends what has stalled for too long.
func (d *Door) sweep() {
	for _, c := range d.connections() {
		if c.writing.Lasting() > d.cfg.StallTimeout || c.stalledAnswer().lasts > d.cfg.StallTimeout {
			d.metrics.cut.WithLabelValues("slow").Inc()
			c.hangUp()
			continue
		}
		for _, call := range c.slow() {
			d.metrics.cut.WithLabelValues("slow").Inc()
			call.fail(errSlow)
		}
	}
}

// slow returns the calls whose messages take too long.
func (c *conn) slow() (slow []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.mu.calls {
		if stopped, since := call.owes(); stopped > c.door.cfg.StallTimeout || since > c.door.cfg.MessageTimeout {
			slow = append(slow, call)
		}
	}
	return slow
}
