package binary_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/client/binary"
)

func ExampleClient() {
	ctx := context.Background()
	c, err := binary.New("127.0.0.1:9001")
	if err != nil {
		fmt.Println("set up:", err)
		return
	}
	defer func() { _ = c.Close() }()
	for offset := int64(0); ; {
		got, err := c.Consume(ctx, binary.Consume{Topic: "orders", Partition: 0, Offset: offset, MaxBytes: 4 << 20})
		if err != nil {
			fmt.Println("consume:", err)
			return
		}
		for _, r := range got.Records {
			fmt.Printf("%d %s %s\n", r.Offset, r.Key, r.Value)
		}
		if len(got.Records) == 0 {
			return
		}
		offset = got.NextOffset
	}
}

// Many batches under way at once, each waited for later.
func ExamplePipelined() {
	ctx := context.Background()
	c, err := binary.NewPipelined("127.0.0.1:9001", binary.WithGzip(), binary.WithInFlight(64))
	if err != nil {
		fmt.Println("set up:", err)
		return
	}
	defer func() { _ = c.Close() }()
	var futures []*binary.Future[[]binary.Placed]
	for i := range 100 {
		f, err := c.Send(ctx, binary.Produce{Topic: "orders", Records: []binary.Record{
			{Key: fmt.Append(nil, "user-", i), Value: []byte("checkout")},
		}})
		if err != nil {
			fmt.Println("send:", err)
			return
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		placed, err := f.Wait(ctx)
		var unknown *binary.OutcomeUnknownError
		switch {
		case errors.As(err, &unknown):
			fmt.Println("may have been written:", unknown.Records, err)
		case err != nil:
			fmt.Println("not written:", err)
		default:
			fmt.Println("written at", placed[0].Partition, placed[0].Offset)
		}
	}
}

// A producer id and sequences make it safe to send a batch again, so that the
// client does so by itself.
func ExampleProduce() {
	p := binary.Produce{Topic: "orders", ProducerID: "checkout-svc-1"}
	for sequence := range int64(3) {
		p.Records = append(p.Records, binary.Record{
			Value:     fmt.Append(nil, "order ", sequence),
			Partition: binary.To(0),
			Sequence:  binary.Seq(sequence),
		})
	}
	fmt.Println(len(p.Records))
	// Output: 3
}
