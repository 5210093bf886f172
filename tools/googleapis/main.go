// Command googleapis prints google/api/annotations.proto and http.proto from
// the descriptors that genproto links in, so that buf needs neither the network
// nor a foreign file in this repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: googleapis FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "googleapis:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	printer := protoprint.Printer{}
	for _, file := range []protoreflect.FileDescriptor{
		annotations.File_google_api_annotations_proto,
		annotations.File_google_api_http_proto,
	} {
		path := filepath.Join(folder, file.Path())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		text, err := printer.PrintProtoToString(file)
		if err != nil {
			return fmt.Errorf("print %s: %w", file.Path(), err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
