package binary_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/client/binary"
)

// Records are written, and read until there are no more.
func ExampleClient() {
	server := startDemo()
	defer server.stop()

	ctx := context.Background()
	c, err := binary.New(server.address())
	if err != nil {
		fmt.Println("set up:", err)
		return
	}
	defer func() { _ = c.Close() }()
	_, err = c.Produce(ctx, binary.Produce{Topic: "orders", Records: []binary.Record{
		{Key: []byte("user-1"), Value: []byte("checkout"), Partition: binary.To(0)},
		{Key: []byte("user-2"), Value: []byte("signup"), Partition: binary.To(0)},
	}})
	if err != nil {
		fmt.Println("produce:", err)
		return
	}
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
	// Output:
	// 0 user-1 checkout
	// 1 user-2 signup
}

// Many batches are under way at once, and each is waited for later.
func ExamplePipelined() {
	server := startDemo()
	defer server.stop()

	ctx := context.Background()
	c, err := binary.NewPipelined(server.address(), binary.WithInFlight(64))
	if err != nil {
		fmt.Println("set up:", err)
		return
	}
	defer func() { _ = c.Close() }()
	var futures []*binary.Future[[]binary.Placed]
	for i := range 3 {
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
		if err != nil {
			fmt.Println("produce:", err)
			return
		}
		fmt.Println("written to partition", placed[0].Partition, "at offset", placed[0].Offset)
	}
	// Output:
	// written to partition 0 at offset 0
	// written to partition 0 at offset 1
	// written to partition 0 at offset 2
}

// A produce was written, or it was not, or nobody knows.
func ExampleOutcomeUnknownError() {
	c, err := binary.New("127.0.0.1:1", binary.WithAttempts(1))
	if err != nil {
		fmt.Println("set up:", err)
		return
	}
	defer func() { _ = c.Close() }()
	_, err = c.Produce(context.Background(), binary.Produce{Topic: "orders", Records: []binary.Record{{Value: []byte("checkout")}}})
	var unknown *binary.OutcomeUnknownError
	var refused *binary.ServerError
	switch {
	case err == nil:
		fmt.Println("written")
	case errors.As(err, &unknown):
		fmt.Println("look whether it is there before it is sent again")
	case errors.As(err, &refused):
		fmt.Println("not written; try again after", refused.RetryAfter)
	default:
		fmt.Println("not written")
	}
	// Output: not written
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
