package conf_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/conf"
)

// options are of every type that a flag of ours has.
type options struct {
	name     string
	auth     string
	tls      bool
	port     int
	limit    int32
	sample   float64
	idle     time.Duration
	segment  int64
	origins  []string
	secret   string
	level    slog.Level
	loaded   bool
	commands *cobra.Command
}

// load runs "sluice serve" with arguments, variables and a file.
func load(t *testing.T, args, environ []string, yaml string) (*options, error) {
	t.Helper()
	o := &options{}
	root := &cobra.Command{Use: "sluice", SilenceErrors: true, SilenceUsage: true}
	serve := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
		o.loaded = true
		return conf.Load(cmd, environ)
	}}
	fs := serve.Flags()
	conf.RegisterFlags(fs)
	fs.StringVar(&o.name, "node-id", "n1", "")
	fs.StringVar(&o.auth, "auth", "off", "")
	fs.BoolVar(&o.tls, "tls", false, "")
	fs.IntVar(&o.port, "port", 9000, "")
	fs.Int32Var(&o.limit, "limit", 1, "")
	fs.Float64Var(&o.sample, "trace-sample", 0.01, "")
	fs.DurationVar(&o.idle, "binary-idle-timeout", time.Minute, "")
	conf.SizeVar(fs, &o.segment, "segment-bytes", 64<<20, "")
	fs.StringSliceVar(&o.origins, "cors-origin", nil, "")
	fs.StringVar(&o.secret, "root-key", "", "")
	conf.MarkSecret(fs, "root-key")
	fs.TextVar(&o.level, "log-level", slog.LevelInfo, "")
	conf.HoldFaults(serve)
	gateway := &cobra.Command{Use: "gateway", Run: func(*cobra.Command, []string) {}}
	gateway.Flags().String("bind-kafka", "", "")
	root.AddCommand(serve, gateway)
	o.commands = serve

	args = append([]string{"serve"}, args...)
	if yaml != "" {
		path := filepath.Join(t.TempDir(), "sluice.yaml")
		require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
		args = append(args, "--config", path)
	}
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	require.True(t, o.loaded || err != nil)
	return o, err
}

func TestDefaults(t *testing.T) {
	o, err := load(t, nil, []string{"HOME=/root", "PATH=/bin"}, "")
	require.NoError(t, err)
	require.Equal(t, "n1", o.name)
	require.EqualValues(t, 64<<20, o.segment)
}

func TestEveryTypeFromEveryPlace(t *testing.T) {
	want := options{
		name: "n2", auth: "off", tls: true, port: 1, limit: 2, sample: 0.5, idle: 90 * time.Second,
		segment: 10_000_000, origins: []string{"https://a", "https://b"}, secret: "s", level: slog.LevelWarn,
	}
	for name, place := range map[string]struct {
		args, environ []string
		yaml          string
	}{
		"flags": {args: []string{
			"--node-id=n2", "--tls", "--port=1", "--limit=2", "--trace-sample=0.5", "--binary-idle-timeout=90s",
			"--segment-bytes=10MB", "--cors-origin=https://a", "--cors-origin=https://b", "--root-key=s", "--log-level=warn",
		}},
		"environment": {environ: []string{
			"SLUICE_NODE_ID=n2", "SLUICE_TLS=true", "SLUICE_PORT=1", "SLUICE_LIMIT=2", "SLUICE_TRACE_SAMPLE=0.5",
			"SLUICE_BINARY_IDLE_TIMEOUT=1m30s", "SLUICE_SEGMENT_BYTES=10MB", "SLUICE_CORS_ORIGIN=https://a,https://b",
			"SLUICE_ROOT_KEY=s", "SLUICE_LOG_LEVEL=warn",
		}},
		"file": {yaml: `
node-id: n2
auth: off
tls: true
port: 1
limit: 2
trace-sample: 0.5
binary-idle-timeout: 1m30s
segment-bytes: 10MB
cors-origin: [https://a, https://b]
root-key: s
log-level: warn
`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, place.args, place.environ, place.yaml)
			require.NoError(t, err)
			got.loaded, got.commands = false, nil
			require.Equal(t, want, *got)
		})
	}
}

// The command line is read to its end, and what is wrong there is told with the rest.
func TestFaultsOfTheCommandLineAreHeld(t *testing.T) {
	_, err := load(t,
		[]string{"--port=x", "--port=y", "--tls=maybe", "--cors-origin=ok", `--cors-origin="b`, "--root-key=s", "--limit", "99999999999", "--segment-bytes=-1"},
		[]string{"SLUICE_TRACE_SAMPLE=all"}, "binary-idle-timeout: 5\n")
	require.Error(t, err)
	require.Equal(t, []string{
		`--cors-origin on the command line: expected a list, got "\"b"`,
		`--limit on the command line: expected a whole number, got "99999999999"`,
		`--port on the command line: expected a whole number, got "x"`,
		`--port on the command line: expected a whole number, got "y"`,
		`--segment-bytes on the command line: expected a size such as 67108864, 64MiB or 10MB, got "-1"`,
		`--tls on the command line: expected true or false, got "maybe"`,
	}, strings.Split(err.Error(), "\n")[:6])
	require.ErrorContains(t, err, "binary-idle-timeout in ")
	require.ErrorContains(t, err, "SLUICE_TRACE_SAMPLE in the environment: expected a number")
}

func TestOrderOfPrecedence(t *testing.T) {
	yaml := "node-id: file\nauth: file\nport: 3\ncors-origin: [file1, file2]\n"
	environ := []string{"SLUICE_NODE_ID=environment", "SLUICE_AUTH=environment", "SLUICE_CORS_ORIGIN=environment"}
	o, err := load(t, []string{"--node-id=flag"}, environ, yaml)
	require.NoError(t, err)
	require.Equal(t, "flag", o.name)
	require.Equal(t, "environment", o.auth)
	require.Equal(t, 3, o.port)
	require.Equal(t, []string{"environment"}, o.origins)

	o, err = load(t, []string{"--cors-origin=flag"}, environ, yaml)
	require.NoError(t, err)
	require.Equal(t, []string{"flag"}, o.origins)
}

func TestTheEnvironmentMayNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte("port: 5"), 0o600))
	o, err := load(t, nil, []string{"SLUICE_CONFIG=" + path}, "")
	require.NoError(t, err)
	require.Equal(t, 5, o.port)

	o, err = load(t, nil, []string{"SLUICE_CONFIG=/nowhere"}, "port: 6")
	require.NoError(t, err, "the flag wins")
	require.Equal(t, 6, o.port)
}

func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		yaml    string
		want    []string
	}{
		"unknown key":             {yaml: "data-dri: /x", want: []string{"data-dri in ", "sluice.yaml", "sluice serve has no such option"}},
		"unknown map":             {yaml: "storage: {port: 1}", want: []string{"storage in ", "no such option"}},
		"underscores":             {yaml: "node_id: n2", want: []string{"node_id in ", "no such option"}},
		"another command's key":   {yaml: "bind-kafka: x", want: []string{"bind-kafka in ", "an option of another command"}},
		"help":                    {yaml: "help: true", want: []string{"help in ", "no such option"}},
		"file in a file":          {yaml: "config: other.yaml", want: []string{"config in ", "a file cannot name a file"}},
		"unknown variable":        {environ: []string{"SLUICE_DATA_DRI=/x"}, want: []string{"SLUICE_DATA_DRI in the environment", "no option --data-dri"}},
		"help variable":           {environ: []string{"SLUICE_HELP=true"}, want: []string{"SLUICE_HELP in the environment"}},
		"number for text":         {yaml: "node-id: 7", want: []string{"node-id in ", "expected text, got 7"}},
		"bool for text":           {yaml: "node-id: true", want: []string{"expected text, got true"}},
		"map for text":            {yaml: "node-id: {a: b}", want: []string{"node-id in ", "expected text, got a map"}},
		"list for text":           {yaml: "node-id: [a]", want: []string{"expected text, got a list"}},
		"nothing":                 {yaml: "node-id:", want: []string{"expected text, got nothing"}},
		"text for number":         {yaml: "port: http", want: []string{"port in ", `expected a whole number, got "http"`}},
		"quoted number":           {yaml: `port: "9000"`, want: []string{`expected a whole number, got "9000"`}},
		"fraction":                {yaml: "port: 1.5", want: []string{"expected a whole number, got 1.5"}},
		"number too large":        {yaml: "limit: 3000000000", want: []string{"limit in ", "expected a whole number, got 3000000000"}},
		"text for bool":           {yaml: `tls: "yes"`, want: []string{`expected true or false, got "yes"`}},
		"number for bool":         {yaml: "tls: 1", want: []string{"expected true or false, got 1"}},
		"number for duration":     {yaml: "binary-idle-timeout: 30", want: []string{"expected a duration such as 500ms, 30s or 1h30m, got 30"}},
		"bad duration":            {yaml: "binary-idle-timeout: 30 sec", want: []string{`expected a duration`, `got "30 sec"`}},
		"bad size":                {yaml: "segment-bytes: many", want: []string{`expected a size such as 67108864, 64MiB or 10MB, got "many"`}},
		"negative size":           {yaml: "segment-bytes: -1", want: []string{"expected a size", "got -1"}},
		"one value for a list":    {yaml: "cors-origin: https://a", want: []string{`cors-origin in `, `expected a list, got "https://a"`}},
		"number in a list":        {yaml: "cors-origin: [https://a, 7]", want: []string{"expected a list, got one with something in it that is no text"}},
		"bad level":               {yaml: "log-level: loud", want: []string{"log-level in ", `got "loud"`, "unknown name"}},
		"variable of wrong type":  {environ: []string{"SLUICE_PORT=http"}, want: []string{`SLUICE_PORT in the environment: expected a whole number, got "http"`}},
		"empty variable":          {environ: []string{"SLUICE_PORT="}, want: []string{`SLUICE_PORT in the environment: expected a whole number, got ""`}},
		"several faults together": {environ: []string{"SLUICE_A=1", "SLUICE_PORT=x"}, yaml: "b: 1\ntls: 2", want: []string{"SLUICE_A", "SLUICE_PORT", "b in", "tls in"}},
		"secret of wrong type":    {yaml: "root-key: 12345", want: []string{"root-key in ", "expected text, got a value of type int"}},
		"no map":                  {yaml: "- a", want: []string{"read --config "}},
		"no YAML":                 {yaml: "a: [", want: []string{"read --config "}},
		"a key twice":             {yaml: "port: 1\nport: 2", want: []string{"read --config ", "port"}},
		"no such file":            {environ: []string{"SLUICE_CONFIG=/nowhere/x.yaml"}, want: []string{"read --config /nowhere/x.yaml", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, nil, c.environ, c.yaml)
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "12345")
		})
	}
}

func TestAWrongValueIsRefusedEvenIfAFlagHidesIt(t *testing.T) {
	_, err := load(t, []string{"--port=1"}, nil, "port: http")
	require.ErrorContains(t, err, "expected a whole number")
}

func TestWhatIsLeftAlone(t *testing.T) {
	_, err := load(t, nil, []string{
		"SLUICE_BIND_KAFKA=127.0.0.1:9092", // another command's
		"SLUICE_SERVICE_HOST=10.0.0.1",     // Kubernetes's
		"SLUICE_SERVICE_PORT_HTTP=9000",
		"SLUICE_GATEWAY_PORT=tcp://10.0.0.1:9000",
		"SLUICE_PORT_9000_TCP_ADDR=10.0.0.1",
		"SLUICEX=1",
	}, "")
	require.NoError(t, err)
	_, err = load(t, nil, nil, "# nothing but a comment\n")
	require.NoError(t, err)
}

func TestDumpMasksSecrets(t *testing.T) {
	o, err := load(t, []string{"--root-key=hunter2", "--cors-origin=a", "--cors-origin=b"}, nil, "")
	require.NoError(t, err)
	dump := map[string]string{}
	for _, attr := range conf.Dump(o.commands.Flags()) {
		dump[attr.Key] = attr.Value.String()
	}
	require.Equal(t, map[string]string{
		"auth": "off", "binary-idle-timeout": "1m0s", "config": "", "cors-origin": "a,b", "limit": "1",
		"log-level": "INFO", "node-id": "n1", "port": "9000", "root-key": "***", "segment-bytes": "64MiB",
		"tls": "false", "trace-sample": "0.01",
	}, dump)

	o, err = load(t, nil, nil, "")
	require.NoError(t, err)
	require.NotContains(t, conf.Dump(o.commands.Flags()), slog.String("root-key", "***"), "no secret is not a secret")
}

// A command whose faults are held may be the program itself, or have others below it.
func TestHelpOfCommandsThatHoldFaults(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"below", "--help"}} {
		root := &cobra.Command{Use: "sluice", Run: func(*cobra.Command, []string) {}}
		root.Flags().Bool("tls", false, "")
		root.AddCommand(&cobra.Command{Use: "below", Run: func(*cobra.Command, []string) {}})
		conf.HoldFaults(root)
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs(args)
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.Contains(t, out.String(), "Usage:")
	}
}
