package common

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// step is a request and what comes back.
type step struct {
	name   string // method and path if empty
	method string
	path   string
	body   string // empty: none
	status int
	// want is the whole body, where TIME stands for a time in milliseconds.
	// Empty with a status from 400 on is any {"error":"…"}.
	want string
}

func (s step) String() string {
	if s.name != "" {
		return s.name
	}
	return s.method + " " + s.path
}

var times = regexp.MustCompile(`"timestamp_ms":[0-9]{13}\b`)

func (s step) run(t *testing.T, api *httpapi.Client) {
	t.Helper()
	var body []byte
	if s.body != "" {
		body = []byte(s.body)
	}
	answer, err := api.Do(t.Context(), s.method, s.path, body)
	require.NoError(t, err, "%s", s)
	got := strings.TrimSuffix(string(answer.Body), "\n")
	require.Equal(t, s.status, answer.Status, "%s: %s", s, got)
	if s.status >= 400 && s.want == "" {
		requireError(t, s, answer)
		return
	}
	require.Equal(t, s.want, times.ReplaceAllString(got, `"timestamp_ms":TIME`), "%s", s)
}

// requireError says that a body is an error with a text and nothing beside it.
func requireError(t *testing.T, s step, answer httpapi.Answer) {
	t.Helper()
	var fields map[string]string
	require.NoError(t, json.Unmarshal(answer.Body, &fields), "%s: %s", s, answer.Body)
	require.Len(t, fields, 1, "%s: %s", s, answer.Body)
	require.NotEmpty(t, fields["error"], "%s: %s", s, answer.Body)
	require.Contains(t, answer.Header.Get("content-type"), "application/json", "%s", s)
}

// steps runs one step after the other.
func steps(t *testing.T, api *httpapi.Client, all []step) {
	t.Helper()
	for _, s := range all {
		s.run(t, api)
	}
}

// connect returns a client that ends with the test.
func connect(t *testing.T, base string) *httpapi.Client {
	api := httpapi.New(base)
	t.Cleanup(api.Close)
	return api
}
