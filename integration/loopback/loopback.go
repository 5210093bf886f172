// Package loopback finds addresses for servers of tests.
//
// A test process takes a block of ports for itself, by listening on the first of
// them until it ends, and gives out the others in turn. So test processes that run
// side by side never give out the same port, and no address is lost to another
// while its server has not started yet or starts again.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// The blocks end below the ports that systems give to whoever asks for any, as
	// outgoing connections do.
	lowest    = 16_384
	blockSize = 256
	blocks    = 64
)

// block is the one of this process.
var block struct {
	sync.Mutex
	// Held until the process ends; nil before the first use.
	claim net.Listener
	first int
	given int
}

// FreeAddress returns a loopback address that nobody listens on and that no other
// test process gives out.
func FreeAddress(t testing.TB) string {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	if block.claim == nil {
		claimBlock()
	}
	require.NotNil(t, block.claim, "no block of ports is free")
	for range blockSize {
		block.given++
		candidate := address(block.first + 1 + block.given%(blockSize-1))
		if listener, err := net.Listen("tcp", candidate); err == nil {
			listener.Close()
			return candidate
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

func claimBlock() {
	for _, i := range rand.Perm(blocks) {
		first := lowest + i*blockSize
		if listener, err := net.Listen("tcp", address(first)); err == nil {
			block.claim, block.first = listener, first
			return
		}
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
