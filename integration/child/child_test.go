package child_test

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/child"
)

func start(t *testing.T, script string) (*child.Process, *strings.Builder) {
	out := &strings.Builder{}
	command := exec.Command("sh", "-c", script)
	command.Stdout = out
	p, err := child.Start(command)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, out
}

func TestEnds(t *testing.T) {
	p, out := start(t, "echo done; exit 3")
	var status *exec.ExitError
	require.ErrorAs(t, p.Wait(), &status)
	require.Equal(t, 3, status.ExitCode())
	require.Equal(t, "done\n", out.String())
	require.ErrorAs(t, p.Terminate(time.Minute), &status, "to stop what has ended changes nothing")
}

func TestKill(t *testing.T) {
	p, _ := start(t, "exec sleep 1000")
	p.Kill()
	require.ErrorContains(t, p.Wait(), "killed")
}

func TestTerminate(t *testing.T) {
	p, _ := start(t, "exec sleep 1000")
	require.ErrorContains(t, p.Terminate(time.Minute), "terminated")
}

func TestTerminateWhatDoesNotListen(t *testing.T) {
	reader, writer := io.Pipe()
	command := exec.Command("sh", "-c", "trap '' TERM QUIT; echo deaf; while :; do sleep 1; done")
	command.Stdout = writer
	command.WaitDelay = time.Second // its sleep may outlive it and hold the pipe
	p, err := child.Start(command)
	require.NoError(t, err)
	t.Cleanup(p.Kill)

	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "deaf\n", line)
	require.ErrorContains(t, p.Terminate(50*time.Millisecond), "still running")
}
