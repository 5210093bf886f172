package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

func newAdminTiered(flags *remoteFlags) *cobra.Command {
	command := &cobra.Command{
		Use:               "tiered TOPIC PARTITION",
		Short:             "List the segments of a partition that are in cold storage",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTopic(flags),
	}
	output := registerChoice(command, "output", "o", "how to show them", "table", "json")
	command.RunE = func(command *cobra.Command, args []string) error {
		partition, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil {
			return usagef("partition %q: must be a whole number", args[1])
		}
		server, err := flags.dial()
		if err != nil {
			return err
		}
		defer server.close()
		response, err := call(command.Context(), server, server.admin.ListTieredSegments,
			&adminv1.ListTieredSegmentsRequest{Topic: args[0], Partition: int32(partition)})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(command.OutOrStdout(), viewTiered(response))
		}
		rows := make([][]string, 0, len(response.GetSegments()))
		for _, s := range response.GetSegments() {
			disk := "no"
			if s.GetLocal() {
				disk = "yes"
			}
			rows = append(rows, []string{
				strconv.FormatInt(s.GetBaseOffset(), 10),
				strconv.FormatInt(s.GetLastOffset(), 10),
				strconv.FormatInt(s.GetSizeBytes(), 10),
				time.UnixMilli(s.GetUploadedAtMs()).UTC().Format(time.RFC3339),
				disk,
				s.GetObject(),
			})
		}
		return writeTable(command.OutOrStdout(), []string{"FIRST", "LAST", "BYTES", "UPLOADED", "ON DISK", "OBJECT"}, rows)
	}
	return command
}

type tieredView struct {
	Segments []tieredSegmentView `json:"segments"`
}

type tieredSegmentView struct {
	BaseOffset     int64  `json:"base_offset"`
	LastOffset     int64  `json:"last_offset"`
	SizeBytes      int64  `json:"size_bytes"`
	UploadedAtMs   int64  `json:"uploaded_at_ms"`
	MaxTimestampMs int64  `json:"max_timestamp_ms"`
	Object         string `json:"object"`
	Local          bool   `json:"local"`
}

// viewTiered is what the REST door shows.
func viewTiered(response *adminv1.ListTieredSegmentsResponse) tieredView {
	view := tieredView{Segments: make([]tieredSegmentView, 0, len(response.GetSegments()))}
	for _, s := range response.GetSegments() {
		view.Segments = append(view.Segments, tieredSegmentView{
			BaseOffset: s.GetBaseOffset(), LastOffset: s.GetLastOffset(), SizeBytes: s.GetSizeBytes(),
			UploadedAtMs: s.GetUploadedAtMs(), MaxTimestampMs: s.GetMaxTimestampMs(), Object: s.GetObject(), Local: s.GetLocal(),
		})
	}
	return view
}
