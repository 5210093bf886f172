package jsonschema

import (
	"encoding/json"
	"math/big"
	"math/bits"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// kinds are kinds of JSON values, as a set.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer
	// fraction are the numbers that are no integers.
	fraction
	text
	array
	object

	number    = integer | fraction
	anyKind   = null | boolean | number | text | array | object
	countable = null | boolean
)

var kindNames = map[string]kinds{
	"null": null, "boolean": boolean, "integer": integer, "number": number, "string": text, "array": array, "object": object,
}

// kindsOf are the kinds that a schema's type and its list of values leave.
func kindsOf(s *js.Schema) kinds {
	if forbids(s) {
		return 0
	}
	k := anyKind
	if s.Types != nil {
		k = 0
		for _, name := range s.Types.ToStrings() {
			k |= kindNames[name]
		}
	}
	if values, ok := listed(s); ok {
		var of kinds
		for _, v := range values {
			of |= kindOf(v)
		}
		k &= of
	}
	return k
}

// listed are the values of a schema that lists them.
func listed(s *js.Schema) ([]any, bool) {
	switch {
	case s.Const != nil:
		return []any{*s.Const}, true
	case s.Enum != nil:
		return s.Enum.Values, true
	default:
		return nil, false
	}
}

func kindOf(value any) kinds {
	switch v := value.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case json.Number:
		if exact, ok := new(big.Rat).SetString(string(v)); ok && exact.IsInt() {
			return integer
		}
		return fraction
	case string:
		return text
	case []any:
		return array
	default:
		return object
	}
}

func (k kinds) single() bool { return bits.OnesCount8(uint8(k)) == 1 }

func (k kinds) each() []kinds {
	var all []kinds
	for one := null; one <= object; one <<= 1 {
		if k&one != 0 {
			all = append(all, one)
		}
	}
	return all
}

func (k kinds) String() string {
	var names []string
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		of := kindNames[name]
		if k&of == of && (name != "integer" || k&fraction == 0) {
			names = append(names, name)
		}
	}
	if k&number == fraction {
		names = append(names, "number")
	}
	return strings.Join(names, " or ")
}
