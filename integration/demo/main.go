// Command demo loads a repository's git history into a topic of a real server,
// one event a commit, keyed by author, and reads it back as a consumer group.
// Half way through the reading it kills the server with SIGKILL and starts it
// again: what was acknowledged is there, and the group goes on from its commits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	binary := flag.String("sluice", "bin/sluice", "the server's program")
	repository := flag.String("repository", ".", "the repository to load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo(ctx, *binary, *repository, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, binary, repository string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()

	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := newServer(binary, dir)
	if err != nil {
		return err
	}
	defer server.kill()

	began := time.Now()
	if err := server.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "sluice serve on %s was ready after %v\n", server.address, since(began))

	client, err := dial(server.address)
	if err != nil {
		return err
	}
	defer client.close()

	began = time.Now()
	loaded, err := client.load(ctx, repository)
	if err != nil {
		return err
	}
	note := ""
	if loaded.shallow {
		note = " (a shallow clone: older ones are not here)"
	}
	fmt.Fprintf(out, "loaded %d commits%s, keyed by author (%d), %d KiB of JSON, in %v: %s\n",
		len(loaded.hashes), note, loaded.authors, loaded.bytes>>10, since(began), rate(len(loaded.hashes), began))
	fmt.Fprintf(out, "  by partition: %v\n", loaded.perPartition)

	began = time.Now()
	half := len(loaded.hashes) / 2
	// Small enough that a short history has something to commit, too.
	fetch := int32(min(maxFetch, max(1, half/4)))
	read := &reading{at: map[string]place{}}
	if err := client.read(ctx, read, fetch, half); err != nil {
		return err
	}
	fmt.Fprintf(out, "read %d records as group %s in %v: %s, committing as it goes\n",
		read.records, group, since(began), rate(read.records, began))

	server.kill()
	began = time.Now()
	if err := server.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "kill -9; ready again after %v\n", since(began))

	began = time.Now()
	before := read.records
	if err := client.read(ctx, read, fetch, 0); err != nil {
		return err
	}
	fmt.Fprintf(out, "read the other %d records in %v: %s\n", read.records-before, since(began), rate(read.records-before, began))

	if err := read.check(loaded); err != nil {
		return err
	}
	fmt.Fprintf(out, "all %d commits are there, in the order of their authors; %d came twice, since their commit had not been made when the server was killed\n",
		len(loaded.hashes), read.records-len(loaded.hashes))
	began = time.Now()
	if err := server.stop(); err != nil {
		return err
	}
	fmt.Fprintf(out, "clean stop in %v\n", since(began))
	return nil
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

func rate(records int, began time.Time) string {
	return fmt.Sprintf("%.0f records/s", float64(records)/time.Since(began).Seconds())
}
