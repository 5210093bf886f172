package backend

import (
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/gateway/internal/picture"
)

// traffic counts what went through this gateway, by topic. The zero value is
// ready.
type traffic struct {
	topics sync.Map // picture.TopicID to *TopicTraffic
}

// TopicTraffic counts what went through this gateway to and from one topic.
// Bytes are those of keys and values.
type TopicTraffic struct {
	RecordsProduced, BytesProduced atomic.Int64
	RecordsConsumed, BytesConsumed atomic.Int64
	// How many records without key and partition were written.
	spread atomic.Uint64
}

func (t *traffic) of(id picture.TopicID) *TopicTraffic {
	if topic, ok := t.topics.Load(id); ok {
		return topic.(*TopicTraffic)
	}
	topic, _ := t.topics.LoadOrStore(id, &TopicTraffic{})
	return topic.(*TopicTraffic)
}

// forget drops the counts of topics that are gone.
func (t *traffic) forget(p *picture.Picture) {
	t.topics.Range(func(id, _ any) bool {
		if p.TopicByID(id.(picture.TopicID)) == nil {
			t.topics.Delete(id)
		}
		return true
	})
}
