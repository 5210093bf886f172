// Command sluice is the server and its command line.
package main

import (
	"os"

	"github.com/sluiceio/sluice/services/sluice/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
