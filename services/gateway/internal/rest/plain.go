package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/common/expfmt"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/exposition"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// healthz says that the process lives, and how many topics it knows of. It needs
// no key.
func healthz(b *backend.Backend) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, fmt.Sprintf(`{"status":"ok","topics":%d}`, b.CountTopics()))
	}
}

// readyz says whether requests can be served. It needs no key.
func readyz(ready func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			writeError(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		writeJSON(w, `{"status":"ready"}`)
	}
}

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body))
}

// metrics shows the topics and groups that the caller may see, and to an
// administrator the process too.
func metrics(deps Deps, answers *answers) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		caller, err := callerOf(r, deps.Backend)
		if err != nil {
			writeFailure(ctx, deps.Logger, w, err)
			return
		}
		c := claim{answers: answers}
		defer c.release()
		if err := c.survey(ctx); err != nil {
			writeFailure(ctx, deps.Logger, w, err)
			return
		}
		var out bytes.Buffer
		if caller.Admin() == nil && deps.Gatherer != nil {
			// A collector that fails costs its own families only.
			families, err := deps.Gatherer.Gather()
			if err != nil {
				deps.Logger.WarnContext(ctx, "some metrics are missing", "error", err)
			}
			encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
			for _, family := range families {
				if err := encoder.Encode(family); err != nil {
					writeFailure(ctx, deps.Logger, w, fmt.Errorf("write metrics: %w", err))
					return
				}
			}
		}
		body := exposition.AppendSurvey(out.Bytes(), deps.Backend.Survey(ctx, caller))
		if err := c.settle(ctx, int64(len(body))); err != nil {
			writeFailure(ctx, deps.Logger, w, err)
			return
		}
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

// callerOf returns who sends a request that no gRPC service answers.
func callerOf(r *http.Request, b *backend.Backend) (grants.Caller, error) {
	secret, err := b.Secret(r.Header.Values(authorizationHeader), r.Header.Values(keyHeader))
	if err != nil {
		return grants.Caller{}, err
	}
	return b.Authenticate(r.Context(), secret)
}
