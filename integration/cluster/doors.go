package cluster

import (
	"testing"

	"github.com/sluiceio/sluice/integration/loopback"
)

// doors are the addresses where clients reach a gateway.
type doors struct{ http, grpc, binary string }

func newDoors(t testing.TB, o Options) doors {
	d := doors{http: loopback.FreeAddress(t), grpc: loopback.FreeAddress(t)}
	if o.Binary {
		d.binary = loopback.FreeAddress(t)
	}
	return d
}

// flags are those of a gateway with these doors.
func (d doors) flags() []string {
	flags := []string{"--bind", d.http, "--bind-grpc", d.grpc}
	if d.binary != "" {
		flags = append(flags, "--bind-binary", d.binary)
	}
	return flags
}

// HTTP is the URL of the HTTP API.
func (d doors) HTTP() string { return "http://" + d.http }

// GRPC is the address of the public gRPC API.
func (d doors) GRPC() string { return d.grpc }

// Binary is the address of the binary protocol, empty without Options.Binary.
func (d doors) Binary() string { return d.binary }
