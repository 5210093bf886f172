package common

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// draft is a schema as serializers send it.
func draft(schema string) string {
	return fmt.Sprintf(`{"schemaType":"JSON","schema":%q}`, schema)
}

// exchange is a request to the registry API that serializers speak.
type exchange struct {
	method, path, body string
	status             int
	want               string
}

// TestRegistryAPI has the shapes and codes of the registry API.
func TestRegistryAPI(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		const a, wider = `{"enum":[1]}`, `{"enum":[1,2]}`
		shown := func(version, id int, schema string) string {
			return fmt.Sprintf(`{"subject":"t-value","version":%d,"id":%d,"schemaType":"JSON","schema":%q}`, version, id, schema)
		}
		code := func(code int) string { return fmt.Sprintf(`{"error_code":%d,`, code) }
		const incompatible = `"backward-incompatible: new schema no longer allows the value 2"`
		for _, x := range []exchange{
			{"GET", "", "", 200, `{}`},
			{"GET", "/", "", 200, `{}`},
			{"GET", "/subjects", "", 200, `[]`},
			{"GET", "/schemas", "", 200, `[]`},
			{"GET", "/schemas/types", "", 200, `["JSON","PROTOBUF","AVRO"]`},
			{"GET", "/contexts", "", 200, `["."]`},
			{"GET", "/config", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
			{"GET", "/mode", "", 200, `{"mode":"READWRITE"}`},
			{"GET", "/subjects/t-value/versions", "", 404, code(40401)},
			{"GET", "/subjects/t-value/versions/latest", "", 404, code(40401)},
			{"POST", "/subjects/t-value", draft(a), 404, code(40401)},

			{"POST", "/subjects/t-value/versions", draft(a), 200, `{"id":1,"version":1}`},
			{"POST", "/subjects/t-value/versions?normalize=true", draft(" " + a), 200, `{"id":1,"version":1}`},
			{"POST", "/subjects/t-value", draft(wider), 404, code(40403)},
			{"POST", "/subjects/t-value/versions", draft(wider), 200, `{"id":2,"version":2}`},
			{"POST", "/subjects/t-value/versions", draft(`{"enum":[1,3]}`), 409, `{"error_code":409,"message":` + incompatible + `}`},
			{"POST", "/subjects/t-value/versions", draft(`{"type":"text"}`), 422, code(42201)},
			{"POST", "/subjects/t-value/versions", `{"schemaType":"XML","schema":"{}"}`, 422, code(42201)},
			{"POST", "/subjects/t-value/versions", `{`, 400, code(400)},
			{"POST", "/subjects/" + strings.Repeat("s", 256) + "/versions", draft(a), 422, code(42208)},
			{"POST", "/subjects/t-value", draft(wider), 200, shown(2, 2, wider)},
			{"POST", "/subjects/a%2Fb/versions", draft(a), 200, `{"id":3,"version":1}`},

			{"GET", "/subjects", "", 200, `["a/b","t-value"]`},
			{"GET", "/subjects?subjectPrefix=t", "", 200, `["t-value"]`},
			{"GET", "/subjects?offset=1&limit=5", "", 200, `["t-value"]`},
			{"GET", "/subjects/t-value/versions", "", 200, `[1,2]`},
			{"GET", "/subjects/t-value/versions/1", "", 200, shown(1, 1, a)},
			{"GET", "/subjects/t-value/versions/latest", "", 200, shown(2, 2, wider)},
			{"GET", "/subjects/t-value/versions/-1", "", 200, shown(2, 2, wider)},
			{"GET", "/subjects/t-value/versions/3", "", 404, code(40402)},
			{"GET", "/subjects/t-value/versions/0", "", 422, code(42202)},
			{"GET", "/subjects/t-value/versions/last", "", 422, code(42202)},
			{"GET", "/subjects/t-value/versions/1/schema", "", 200, a},
			{"GET", "/subjects/t-value/versions/1/referencedby", "", 200, `[]`},
			{"GET", "/schemas?latestOnly=true&subjectPrefix=t", "", 200, "[" + shown(2, 2, wider) + "]"},
			{"GET", "/schemas/ids/2", "", 200, fmt.Sprintf(`{"subject":"t-value","version":2,"schemaType":"JSON","schema":%q}`, wider)},
			{"GET", "/schemas/ids/2/schema", "", 200, wider},
			{"GET", "/schemas/ids/2/subjects", "", 200, `["t-value"]`},
			{"GET", "/schemas/ids/2/versions", "", 200, `[{"subject":"t-value","version":2}]`},
			{"GET", "/schemas/ids/9", "", 404, code(40403)},
			{"GET", "/schemas/ids/x", "", 404, code(40403)},

			{"POST", "/compatibility/subjects/t-value/versions/latest", draft(a), 200, `{"is_compatible":false}`},
			{"POST", "/compatibility/subjects/t-value/versions/latest?verbose=true", draft(a), 200, `{"is_compatible":false,"messages":[` + incompatible + `]}`},
			{"POST", "/compatibility/subjects/t-value/versions/1", draft(a), 200, `{"is_compatible":true}`},
			{"POST", "/compatibility/subjects/t-value/versions", draft(`{"enum":[1,2,3]}`), 200, `{"is_compatible":true}`},
			{"POST", "/compatibility/subjects/none/versions", draft(a), 200, `{"is_compatible":true}`},
			{"POST", "/compatibility/subjects/none/versions/latest", draft(a), 404, code(40401)},
			{"POST", "/compatibility/subjects/t-value/versions/7", draft(a), 404, code(40402)},

			{"GET", "/config/t-value", "", 404, code(40408)},
			{"GET", "/config/t-value?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
			{"PUT", "/config/t-value", `{"compatibility":"SIDEWAYS"}`, 422, code(42203)},
			{"PUT", "/config/t-value", `{"compatibility":"NONE"}`, 200, `{"compatibility":"NONE"}`},
			{"GET", "/config/t-value", "", 200, `{"compatibilityLevel":"NONE"}`},
			{"POST", "/subjects/t-value/versions", draft(`{"enum":[9]}`), 200, `{"id":4,"version":3}`},
			{"DELETE", "/config/t-value", "", 200, `{"compatibilityLevel":"NONE"}`},
			{"GET", "/config/t-value", "", 404, code(40408)},
			{"PUT", "/config", `{"compatibility":"FULL_TRANSITIVE"}`, 200, `{"compatibility":"FULL_TRANSITIVE"}`},
			{"GET", "/config", "", 200, `{"compatibilityLevel":"FULL_TRANSITIVE"}`},

			{"GET", "/mode/t-value", "", 404, code(40409)},
			{"PUT", "/mode/t-value", `{"mode":"SOMETIMES"}`, 422, code(42204)},
			{"PUT", "/mode/t-value", `{"mode":"READONLY"}`, 200, `{"mode":"READONLY"}`},
			{"POST", "/subjects/t-value/versions", draft(a), 422, code(42205)},
			{"DELETE", "/subjects/t-value", "", 422, code(42205)},
			{"DELETE", "/mode/t-value", "", 200, `{"mode":"READONLY"}`},

			{"DELETE", "/subjects/none", "", 404, code(40401)},
			{"DELETE", "/subjects/t-value?permanent=true", "", 404, code(40405)},
			{"DELETE", "/subjects/t-value/versions/1?permanent=true", "", 404, code(40407)},
			{"DELETE", "/subjects/t-value/versions/1", "", 200, `1`},
			{"DELETE", "/subjects/t-value/versions/1", "", 404, code(40406)},
			{"GET", "/subjects/t-value/versions", "", 200, `[2,3]`},
			{"GET", "/subjects/t-value/versions?deleted=true", "", 200, `[1,2,3]`},
			{"GET", "/schemas/ids/1/schema", "", 200, a},
			{"GET", "/schemas/ids/1/subjects", "", 200, `[]`},
			{"DELETE", "/subjects/t-value/versions/1?permanent=true", "", 200, `1`},
			{"GET", "/schemas/ids/1/schema", "", 404, code(40403)},
			{"DELETE", "/subjects/t-value", "", 200, `[2,3]`},
			{"DELETE", "/subjects/t-value", "", 404, code(40404)},
			{"GET", "/subjects", "", 200, `["a/b"]`},
			{"GET", "/subjects?deleted=true", "", 200, `["a/b","t-value"]`},
			{"DELETE", "/subjects/t-value?permanent=true", "", 200, `[2,3]`},
			{"POST", "/subjects/t-value/versions", draft(a), 200, `{"id":5,"version":4}`},

			{"GET", "/nothing", "", 404, code(404)},
			{"PUT", "/subjects", "", 405, code(405)},
			{"POST", "/subjects/t-value/versions", `{"schema":"` + strings.Repeat(" ", 3<<20) + `"}`, 413, code(413)},
		} {
			req, err := http.NewRequestWithContext(t.Context(), x.method, s.HTTP()+"/registry"+x.path, strings.NewReader(x.body))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			body := string(answer)
			require.Equal(t, x.status, resp.StatusCode, "%s %.100s: %s", x.method, x.path, body)
			require.Equal(t, "application/vnd.schemaregistry.v1+json", resp.Header.Get("Content-Type"), "%s %.100s", x.method, x.path)
			if x.status >= 400 && strings.HasSuffix(x.want, ",") {
				require.True(t, strings.HasPrefix(body, x.want), "%s %.100s: %s", x.method, x.path, body)
				require.Contains(t, body, `"message":"`)
				continue
			}
			require.Equal(t, x.want, body, "%s %.100s", x.method, x.path)
		}
	})
}
