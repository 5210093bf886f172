package chaos

import (
	"context"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// tailer reads a partition as it grows: what a consumer has seen once must never
// go away, acknowledged or not.
type tailer struct {
	api       *httpapi.Client
	topic     string
	partition int
	ledger    *Ledger
}

// run returns with the first error.
func (r *tailer) run(ctx context.Context) error {
	offset := r.ledger.Checked(r.partition)
	for {
		page, err := r.api.Consume(ctx, r.topic, r.partition, offset)
		if err != nil {
			return err
		}
		for _, record := range page.Records {
			m, err := parseMessage(record.Value)
			if err != nil {
				return err
			}
			r.ledger.Know(m, record.Offset)
		}
		offset = page.NextOffset
	}
}
