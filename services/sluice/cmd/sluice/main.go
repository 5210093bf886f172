// Command sluice is the server and its command line.
package main

import (
	"os"

	// Whom to trust where the machine does not say, as in an image of nothing but
	// the program.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/sluiceio/sluice/services/sluice/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
