// Package obs sets up what a process shows of itself: logs, metrics and traces.
//
// Each is a value that is handed to who needs it. There is no default registry,
// no global tracer provider, no default logger, so that several nodes can live
// in one test.
package obs

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// The log formats.
const (
	// FormatAuto is text on a terminal and JSON elsewhere.
	FormatAuto = "auto"
	FormatText = "text"
	FormatJSON = "json"
)

// Config says what to show, and where to.
type Config struct {
	// LogLevel is the lowest level that is written.
	LogLevel slog.Level
	// LogFormat is FormatAuto, FormatText or FormatJSON.
	LogFormat string
	// OTLPEndpoint is where traces go by OTLP over gRPC: host:port or
	// http://host:port without TLS, https://host:port with it. Empty turns
	// tracing off, at no cost.
	OTLPEndpoint string
	// TraceSample is the part of requests that are traced when the caller has
	// not decided it, 0 to 1. A traced request costs some 9 µs for each hop.
	TraceSample float64
}

// RegisterFlags sets the defaults and registers a flag for each field.
func (c *Config) RegisterFlags(fs *pflag.FlagSet) {
	fs.TextVar(&c.LogLevel, "log-level", slog.LevelInfo, "lowest `level` that is logged: debug, info, warn, error")
	fs.StringVar(&c.LogFormat, "log-format", FormatAuto, "`format` of the log: text, json, or auto (text on a terminal, else json)")
	fs.StringVar(&c.OTLPEndpoint, "otlp-endpoint", "", "`address` that takes traces by OTLP over gRPC, such as localhost:4317 or https://traces.example.com:4317; none turns tracing off")
	fs.Float64Var(&c.TraceSample, "trace-sample", 0.01, "`part` of requests to trace when the caller has not decided it, 0 to 1")
}

// Validate reports all faults together.
func (c *Config) Validate() error {
	var errs []error
	switch c.LogFormat {
	case FormatAuto, FormatText, FormatJSON:
	default:
		errs = append(errs, fmt.Errorf("--log-format %q: expected text, json or auto", c.LogFormat))
	}
	if _, err := endpointURL(c.OTLPEndpoint); err != nil {
		errs = append(errs, err)
	}
	// Written so that NaN is refused.
	if !(c.TraceSample >= 0 && c.TraceSample <= 1) {
		errs = append(errs, fmt.Errorf("--trace-sample %v: expected 0 to 1", c.TraceSample))
	}
	return errors.Join(errs...)
}

// endpointURL returns the endpoint as a URL whose scheme says whether to use
// TLS; empty for an empty endpoint.
func endpointURL(endpoint string) (string, error) {
	if endpoint == "" {
		return "", nil
	}
	full := endpoint
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--otlp-endpoint %q: expected host:port, http://host:port or https://host:port", endpoint)
	}
	return full, nil
}
