// Package apidocs shows people the HTTP API: the OpenAPI document, and a page
// that lists its operations and tries those that change nothing.
//
//	/openapi.json   the document
//	/docs           the page, and beside it
//	/docs/page.css
//	/docs/page.js   what it is made of
//
// The page takes nothing from elsewhere: a broker often stands where there is no
// way out, and a script of others on its origin could do whatever its reader may.
package apidocs

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/sluiceio/sluice/gen"
)

//go:embed page
var page embed.FS

// policy lets the page load its own parts, call its own server and be framed by
// nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handlers returns what answers GET and HEAD, by path. None needs a key: all of
// it is the same for everybody, and says nothing about what the server holds.
func Handlers() (map[string]http.HandlerFunc, error) {
	handlers := map[string]http.HandlerFunc{
		"/openapi.json": serve("application/json", gen.OpenAPI),
	}
	for path, part := range map[string]struct{ name, contentType string }{
		"/docs":          {"page/page.html", "text/html; charset=utf-8"},
		"/docs/page.css": {"page/page.css", "text/css; charset=utf-8"},
		"/docs/page.js":  {"page/page.js", "text/javascript; charset=utf-8"},
	} {
		content, err := page.ReadFile(part.name)
		if err != nil {
			return nil, fmt.Errorf("documentation page: %w", err)
		}
		handlers[path] = serve(part.contentType, content)
	}
	return handlers, nil
}

// serve answers with content that never changes while the process lives. Another
// version of the server has another tag, so browsers ask each time.
func serve(contentType string, content []byte) http.HandlerFunc {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache")
		header.Set("Etag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}
