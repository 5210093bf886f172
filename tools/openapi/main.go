// Command openapi makes the generated OpenAPI document say what the REST door
// really does. The generator describes protojson: 64-bit numbers as strings,
// google.rpc.Status as the error. Ours are numbers and {"error": "…"}.
//
// Numbers and errors follow one rule each and are rewritten wherever they stand.
// All else that differs is a list of exceptions, laid over the document as a
// JSON merge patch (RFC 7386): an object is merged, null removes, anything else
// replaces. Beyond the RFC, an object that meets a list of things with names, such
// as an operation's parameters, is merged into those by their names.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi DOCUMENT PATCH")
		os.Exit(2)
	}
	if err := rewrite(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func rewrite(documentPath, patchPath string) error {
	document, err := readJSON(documentPath)
	if err != nil {
		return err
	}
	patch, err := readJSON(patchPath)
	if err != nil {
		return err
	}
	numbers(document)
	failures(document)
	document = merge(document, patch)

	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("encode %s: %w", documentPath, err)
	}
	return os.WriteFile(documentPath, out.Bytes(), 0o644)
}

func readJSON(path string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return value, nil
}

// numbers turns every string of a 64-bit integer format into an integer.
func numbers(node any) {
	switch node := node.(type) {
	case map[string]any:
		if node["type"] == "string" && (node["format"] == "int64" || node["format"] == "uint64") {
			node["type"] = "integer"
		}
		for _, child := range node {
			numbers(child)
		}
	case []any:
		for _, child := range node {
			numbers(child)
		}
	}
}

// failures lets every operation fail with the one error that the patch describes.
func failures(document any) {
	root, _ := document.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	for _, path := range paths {
		operations, _ := path.(map[string]any)
		for _, operation := range operations {
			operation, _ := operation.(map[string]any)
			if responses, ok := operation["responses"].(map[string]any); ok && responses["default"] != nil {
				responses["default"] = map[string]any{"$ref": "#/responses/Error"}
			}
		}
	}
}

// merge applies a merge patch to target, which it may change, and returns the
// result.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	if named := byName(target); named != nil {
		for name, change := range changes {
			merge(named[name], change)
		}
		return target
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
			continue
		}
		object[name] = merge(object[name], change)
	}
	return object
}

// byName returns the things of a list by their names, or nil if it is no list of
// things that all have one.
func byName(target any) map[string]any {
	list, _ := target.([]any)
	named := make(map[string]any, len(list))
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, ok := object["name"].(string)
		if !ok {
			return nil
		}
		named[name] = object
	}
	if len(named) == 0 {
		return nil
	}
	return named
}
