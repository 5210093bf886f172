package conf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// class says which values a flag takes.
type class int

const (
	isText class = iota
	isBool
	isInt
	isFloat
	isDuration
	isSize
	isList
)

func classOf(f *pflag.Flag) class {
	if _, ok := f.Value.(pflag.SliceValue); ok {
		return isList
	}
	switch f.Value.Type() {
	case "bool":
		return isBool
	case "duration":
		return isDuration
	case sizeType:
		return isSize
	case "float32", "float64":
		return isFloat
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "count":
		return isInt
	}
	return isText
}

func expected(f *pflag.Flag) string {
	switch classOf(f) {
	case isBool:
		return "true or false"
	case isInt:
		return "a whole number"
	case isFloat:
		return "a number"
	case isDuration:
		return "a duration such as 500ms, 30s or 1h30m"
	case isSize:
		return "a size such as 67108864, 64MiB or 10MB"
	case isList:
		return "a list"
	}
	return "text"
}

// plain returns a value as the flag's Set takes it (a string, for a list
// []string), and whether it is of the flag's type. In a textual source every
// type is written as text, and Set finds out whether it is one.
func plain(f *pflag.Flag, value any, textual bool) (any, bool) {
	c := classOf(f)
	switch v := value.(type) {
	case string:
		return v, c == isText || c == isDuration || c == isSize || textual && c != isList
	case bool:
		return strconv.FormatBool(v), c == isBool
	case int:
		return strconv.Itoa(v), c == isInt || c == isFloat || c == isSize
	case uint64: // above the largest int64
		return strconv.FormatUint(v, 10), c == isInt || c == isFloat || c == isSize
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), c == isFloat
	case []any:
		list := make([]string, 0, len(v))
		for _, element := range v {
			text, ok := element.(string)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, c == isList
	}
	return nil, false
}

// describe says what was found in place of a value; not its text when that is a
// secret.
func describe(f *pflag.Flag, value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "a map"
	case []any:
		if classOf(f) == isList {
			return "one with something in it that is no text"
		}
		return "a list"
	case string:
		if isSecret(f) {
			return "text"
		}
		return strconv.Quote(v)
	default:
		if isSecret(f) {
			return fmt.Sprintf("a value of type %T", v)
		}
		return fmt.Sprint(v)
	}
}

// because adds what a flag with rules of its own, such as a log level, says of a
// value. What the plain types say adds nothing to what was expected.
func because(f *pflag.Flag, err error) string {
	if classOf(f) != isText || isSecret(f) {
		return ""
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.Unwrap() != nil {
		err = invalid.Unwrap()
	}
	return ": " + strings.TrimSpace(err.Error())
}
