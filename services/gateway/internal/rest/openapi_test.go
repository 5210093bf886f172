package rest

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/gen"
)

var reference = regexp.MustCompile(`"\$ref":\s*"#/(\w+)/(\w+)"`)

// What the OpenAPI document says that an operation answers is what it does.
func TestOpenAPIHasTheStatusesOfTheDoor(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Tags        []string
			Responses   map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(gen.OpenAPI, &document))
	want := make(map[string]int)
	for method, status := range successes {
		// "/sluice.log.v1.TopicService/CreateTopic"
		service, name, _ := strings.Cut(method[strings.LastIndex(method, ".")+1:], "/")
		want[service+"_"+name] = status
	}
	checked := 0
	for path, operations := range document.Paths {
		for method, operation := range operations {
			success := 200
			if status, ok := want[operation.OperationID]; ok {
				success = status
				checked++
			}
			for status := range operation.Responses {
				if strings.HasPrefix(status, "2") {
					require.Equal(t, strconv.Itoa(success), status, "%s %s", method, path)
				}
			}
			require.Contains(t, operation.Responses, strconv.Itoa(success), "%s %s", method, path)
		}
	}
	require.Equal(t, len(want), checked, "every operation is in the document")
}

func TestOpenAPIRefersToWhatIsThere(t *testing.T) {
	var document map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(gen.OpenAPI, &document))
	found := reference.FindAllStringSubmatch(string(gen.OpenAPI), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		var section map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(document[m[1]], &section))
		require.Contains(t, section, m[2])
	}
}
