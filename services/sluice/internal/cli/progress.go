package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far a command is. It is told of bytes of input.
type progress struct{ bar *progressbar.ProgressBar }

// noProgress shows nothing.
var noProgress = progress{}

// newProgress draws on out, if that is a terminal. A total of -1 is unknown.
func newProgress(out io.Writer, total int64) progress {
	if !isTerminal(out) {
		return noProgress
	}
	return progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription("produce"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) add(bytes int) {
	if p.bar != nil {
		// What cannot be drawn is no reason to stop.
		_ = p.bar.Add(bytes)
	}
}

func (p progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// sizeOf returns the length of a regular file, and -1 for anything else.
func sizeOf(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}
