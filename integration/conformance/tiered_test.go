package conformance

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is in cold storage is the server's business; that it is told, and to whom,
// is the document's.
func TestTieredSegmentsAreListed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		topic := s.topic(t, 2)
		for _, partition := range []string{"0", "1"} {
			var listed struct {
				Segments []struct {
					BaseOffset *int64 `json:"base_offset"`
					LastOffset *int64 `json:"last_offset"`
					SizeBytes  *int64 `json:"size_bytes"`
					UploadedAt *int64 `json:"uploaded_at_ms"`
				} `json:"segments"`
			}
			require.NoError(t, json.Unmarshal([]byte(s.call(t, "GET", "/admin/tiered/"+topic+"/"+partition, "", 200)), &listed))
			require.NotNil(t, listed.Segments, "an empty list, not null")
			for _, segment := range listed.Segments {
				require.NotNil(t, segment.BaseOffset)
				require.NotNil(t, segment.LastOffset)
				require.NotNil(t, segment.SizeBytes)
				require.NotNil(t, segment.UploadedAt)
			}
		}
		for _, path := range []string{"/admin/tiered/" + topic + "/2", "/admin/tiered/" + topic + "-none/0"} {
			var refused struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(s.call(t, "GET", path, "", 404)), &refused))
			require.NotEmpty(t, refused.Error)
		}
		if s.token == "" {
			return
		}
		holder, revoke := s.key(t, topic, 1<<20)
		defer revoke()
		holder.call(t, "GET", "/admin/tiered/"+topic+"/0", "", 403)
		holder.call(t, "GET", "/admin/tiered/"+topic+"-none/0", "", 403)
	})
}
