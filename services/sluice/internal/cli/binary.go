package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/client/binary"
)

// binaryFlags send records another way.
type binaryFlags struct {
	address string
	gzip    bool
}

func (f *binaryFlags) register(command *cobra.Command, what string) {
	command.Flags().StringVar(&f.address, "binary", "", what+" over the binary protocol at this `address`, such as 127.0.0.1:9001")
	command.Flags().BoolVar(&f.gzip, "gzip", false, "compress what goes over the binary protocol")
}

func (f *binaryFlags) validate() error {
	if f.gzip && f.address == "" {
		return usagef("--gzip is for --binary")
	}
	return nil
}

// client connects with the key and the certificates that hold for gRPC.
func (f *binaryFlags) client(remote *remoteFlags, options ...binary.Option) (*binary.Pipelined, error) {
	config, err := remote.security.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, binary.WithTLS(config))
	}
	key, err := remote.security.key()
	if err != nil {
		return nil, err
	}
	options = append(options, binary.WithToken(key), binary.WithRequestTimeout(remote.timeout))
	if f.gzip {
		options = append(options, binary.WithGzip())
	}
	client, err := binary.NewPipelined(f.address, options...)
	if err != nil {
		return nil, usagef("--binary: %w", err)
	}
	return client, nil
}
