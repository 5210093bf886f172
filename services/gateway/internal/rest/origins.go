package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Preflight answers hold for ten minutes.
const corsMaxAge = "600"

// allowOrigins lets the pages of some origins read answers. For all others no
// CORS header is sent.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if origin == "" || !slices.Contains(origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Retry-After")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", strings.Join([]string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete,
		}, ", "))
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+keyHeader+", Traceparent, Tracestate")
		h.Set("Access-Control-Max-Age", corsMaxAge)
		w.WriteHeader(http.StatusNoContent)
	})
}

// refuseCrossOrigin keeps the pages of other origins from changing anything. A
// browser sends a simple POST without asking first, and here no key is needed.
func refuseCrossOrigin(trusted []string, next http.Handler) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	for _, origin := range trusted {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("CORS origin: %w", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil {
			writeError(w, http.StatusForbidden, "pages of other origins are not allowed to do this: "+err.Error())
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
