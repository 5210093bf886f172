package binproto

import "sync"

// lines keep the produces of a connection in order, each topic for itself. The
// zero value is ready.
type lines struct {
	mu struct {
		sync.Mutex
		// Those that somebody writes; nil while nobody does.
		byTopic map[string]*line
	}
}

// A line is the produces to one topic that were not begun.
type line struct {
	topic string
	// Guarded by the mutex of lines.
	waiting []*produce
}

// enter puts a request at the end of the line of its topic. It says whether it
// is the first, so that somebody must write the line.
func (l *lines) enter(topic []byte, p *produce) (*line, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.mu.byTopic[string(topic)]; known != nil {
		known.waiting = append(known.waiting, p)
		return known, false
	}
	if l.mu.byTopic == nil {
		l.mu.byTopic = make(map[string]*line)
	}
	made := &line{topic: string(topic), waiting: []*produce{p}}
	l.mu.byTopic[made.topic] = made
	return made, true
}

// next takes the requests from the front of a line that together have no more
// bytes than one request may have, at least one. There are none when the line is
// over; the next request to its topic begins another.
func (l *lines) next(line *line, most int) []*produce {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(line.waiting) == 0 {
		delete(l.mu.byTopic, line.topic)
		if len(l.mu.byTopic) == 0 {
			l.mu.byTopic = nil
		}
		return nil
	}
	n, bytes := 0, 0
	for _, p := range line.waiting {
		bytes += len(p.body)
		if n > 0 && bytes > most {
			break
		}
		n++
	}
	group := line.waiting[:n:n]
	line.waiting = line.waiting[n:]
	return group
}
