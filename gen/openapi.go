// Package gen holds what is generated from proto/: Go under go and gw, stubs for
// Python and TypeScript, and the OpenAPI document. `make generate` replaces all
// of it but this file, which lets programs carry the document with them.
package gen

import _ "embed"

// OpenAPI is the OpenAPI 2.0 document of the HTTP API, as JSON. Nobody changes
// it.
//
//go:embed openapi/sluice.swagger.json
var OpenAPI []byte
