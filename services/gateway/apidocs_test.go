package gateway_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway"
)

var inBraces = regexp.MustCompile(`\{\w+\}`)

// Every operation of the OpenAPI document is served, under its method.
func TestOpenAPIIsServedAndTrue(t *testing.T) {
	s := start(t)
	got := s.do(t, "GET", "/openapi.json", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	var document struct {
		Swagger string
		Paths   map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &document))
	require.Equal(t, "2.0", document.Swagger)
	require.NotEmpty(t, document.Paths)
	for path, operations := range document.Paths {
		refused := s.do(t, "PATCH", inBraces.ReplaceAllString(path, "x"), "")
		for method := range operations {
			require.Equal(t, 405, refused.status, path)
			require.Contains(t, strings.Split(refused.header.Get("Allow"), ", "), strings.ToUpper(method), path)
		}
	}
	head := s.do(t, "HEAD", "/openapi.json", "")
	require.Equal(t, 200, head.status)
	require.Empty(t, head.body)
	again := s.request(t, "GET", "/openapi.json", "")
	again.Header.Set("If-None-Match", got.header.Get("Etag"))
	require.Equal(t, 304, s.send(t, again).status)
}

// What the document calls required is refused by name when it is absent.
func TestOpenAPISaysWhatIsRequired(t *testing.T) {
	s := start(t)
	s.steps(t, create("x", "1"))
	type parameter struct {
		Name, In string
		Required bool
		Schema   map[string]string
	}
	type operation struct{ Parameters []parameter }
	var document struct {
		Paths       map[string]map[string]operation
		Definitions map[string]struct{ Required []string }
	}
	require.NoError(t, json.Unmarshal([]byte(s.do(t, "GET", "/openapi.json", "").body), &document))
	checked := 0
	for path, operations := range document.Paths {
		for method, op := range operations {
			var query []string
			for _, p := range op.Parameters {
				if p.In == "query" && p.Required {
					query = append(query, p.Name)
				}
			}
			target := inBraces.ReplaceAllString(path, "x")
			for _, absent := range query {
				values := url.Values{}
				for _, name := range query {
					if name != absent {
						values.Set(name, "0")
					}
				}
				require.Equal(t, answerOf(400, `{"error":"`+absent+` must be given"}`), bare(s.do(t, "GET", target+"?"+values.Encode(), "")), "%s without %s", path, absent)
				checked++
			}
			for _, p := range op.Parameters {
				required := document.Definitions[strings.TrimPrefix(p.Schema["$ref"], "#/definitions/")].Required
				if p.In != "body" || len(required) == 0 {
					continue
				}
				got := s.do(t, strings.ToUpper(method), target, "{}")
				if got.status == 501 {
					// Keys: the cluster in memory has none.
					continue
				}
				require.Equal(t, 400, got.status, "%s %s", method, path)
				checked++
			}
		}
	}
	require.Equal(t, 5+9, checked)
}

// The page needs no key, as what it shows is in no way secret, and takes nothing
// from elsewhere.
func TestDocsPageStandsAlone(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.Authenticated = true })
	page := s.do(t, "GET", "/docs", "")
	require.Equal(t, 200, page.status)
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
	require.Equal(t, "nosniff", page.header.Get("X-Content-Type-Options"))
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page.body, -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		if strings.HasPrefix(link[1], "data:") {
			continue
		}
		part := s.do(t, "GET", link[1], "")
		require.Equal(t, 200, part.status, link[1])
		require.NotRegexp(t, `https?://`, part.body, link[1])
	}
	require.Equal(t, 405, s.do(t, "POST", "/docs", "").status)
	require.Equal(t, 404, s.do(t, "GET", "/docs/page.html", "").status)
}
