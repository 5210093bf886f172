package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the names under which this machine may be called. A page of another
// site can have its own name resolved to 127.0.0.1 (DNS rebinding) and is then of
// the same origin as this server; the Host header gives it away.
type Hosts struct {
	// Names, in lower case, beside localhost and those below it.
	Names []string
	// AnyAddress takes every IP address as well as loopback ones. It is safe:
	// an address in the Host header was not looked up.
	AnyAddress bool
}

func (h *Hosts) allow(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || h.AnyAddress || slices.Contains(h.Names, host)
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(h.Names, host)
}

// checkHost refuses requests that were not meant for this machine. HTTP/1.0
// requests without a Host come from no browser.
func checkHost(hosts *Hosts, next http.Handler) http.Handler {
	if hosts == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && !hosts.allow(r.Host) {
			writeError(w, http.StatusForbidden, fmt.Sprintf("the Host %q does not name this machine", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}
