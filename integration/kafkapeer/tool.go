package kafkapeer

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
)

// The tools' classes.
const (
	DumpLogSegments = "org.apache.kafka.tools.DumpLogSegments"
	StorageTool     = "kafka.tools.StorageTool"
)

// Run runs the main method of a class and returns what it printed on standard
// output. A status other than 0 is an error that has both streams.
func (k *Kafka) Run(ctx context.Context, class string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, k.java, append([]string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", k.classpath, class}, args...)...)
	var out, err bytes.Buffer
	command.Stdout, command.Stderr = &out, &err
	if failed := command.Run(); failed != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", class, failed, out.String(), err.String())
	}
	return out.String(), nil
}
