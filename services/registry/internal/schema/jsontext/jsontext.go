// Package jsontext reads the JSON that schemas are written in, within bounds, and
// writes it in one canonical way.
package jsontext

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

const (
	// maxDepth is how deep a schema's JSON may be nested.
	maxDepth = 200
	// maxNodes is how many values a schema's JSON may have.
	maxNodes = 200_000
	// maxSchemas is how many of them may be objects or booleans, each of which may
	// be a schema. Compiling JSON Schemas takes time by the square of it.
	maxSchemas = 20_000
	// maxDigits and maxExponent bound numbers: 1e999999999 has nine digits here
	// and a billion once it is computed with.
	maxDigits   = 100
	maxExponent = 400
)

// Decode reads one JSON value, with numbers as json.Number.
func Decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no JSON: something follows the first value")
	}
	return document, (&bounds{nodes: maxNodes, schemas: maxSchemas}).check(document, maxDepth)
}

// bounds are how much of a document may still come.
type bounds struct{ nodes, schemas int }

func (b *bounds) check(value any, depth int) error {
	switch value.(type) {
	case bool, map[string]any:
		b.schemas--
	}
	b.nodes--
	switch {
	case b.schemas < 0:
		return fmt.Errorf("it has more than %d objects and booleans", maxSchemas)
	case b.nodes < 0:
		return fmt.Errorf("it has more than %d values", maxNodes)
	case depth == 0:
		return fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	switch v := value.(type) {
	case json.Number:
		return boundedNumber(string(v))
	case []any:
		for _, element := range v {
			if err := b.check(element, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, field := range v {
			if err := b.check(field, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func boundedNumber(n string) error {
	if len(n) > maxDigits {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	at := strings.IndexAny(n, "eE")
	if at < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(n[at+1:])
	if err != nil || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("the exponent of %s is beyond %d", n, maxExponent)
	}
	return nil
}

// Canonical writes a document that Decode returned, the same way whatever the order
// of its fields, its white space and how its numbers are written.
func Canonical(document any) []byte {
	// It fails only for what no JSON decodes to.
	out, _ := json.Marshal(byValue(document))
	return out
}

func byValue(value any) any {
	switch v := value.(type) {
	case json.Number:
		exact, _ := new(big.Rat).SetString(string(v))
		// An object that no schema has, so that no string is taken for it.
		return map[string]string{"\x00": exact.RatString()}
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = byValue(element)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			out[name] = byValue(field)
		}
		return out
	default:
		return v
	}
}
