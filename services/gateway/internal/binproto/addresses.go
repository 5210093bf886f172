package binproto

import (
	"net"
	"net/netip"
	"sync"
)

// addresses counts the connections of each address.
type addresses struct {
	// 0 is without limit.
	most int

	mu struct {
		sync.Mutex
		// Without entries of 0.
		open map[netip.Addr]int
	}
}

func newAddresses(most int) *addresses {
	a := &addresses{most: most}
	a.mu.open = make(map[netip.Addr]int)
	return a
}

// enter counts one more connection of an address, unless it has as many as it
// may.
func (a *addresses) enter(address netip.Addr) bool {
	if a.most == 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.open[address] >= a.most {
		return false
	}
	a.mu.open[address]++
	return true
}

func (a *addresses) leave(address netip.Addr) {
	if a.most == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.open[address]--; a.mu.open[address] == 0 {
		delete(a.mu.open, address)
	}
}

// addressOf returns where a connection comes from, the same for IPv4 and for
// IPv4 within IPv6. What is no IP is one address.
func addressOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
