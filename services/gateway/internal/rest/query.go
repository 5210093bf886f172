package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

// checkPath refuses variables of the path that a message cannot carry.
func (x *exchange) checkPath() error {
	for name, value := range x.params {
		if field := x.route.input.Fields().ByName(protoreflect.Name(name)); field.Kind() == protoreflect.Int32Kind {
			if err := checkInteger(field, value, 32); err != nil {
				return err
			}
		}
		if !utf8.ValidString(value) {
			return fmt.Errorf("%s must be UTF-8, got %q", name, value)
		}
	}
	return nil
}

// readQuery checks the query parameters of a request and leaves in r.Form what
// grpc-gateway may see of them: the parameters that the route has, under their
// one name, once each, of the right kind. Others are passed over, as unknown
// names in a body are.
func (x *exchange) readQuery(r *http.Request) error {
	r.Form = url.Values{}
	if r.URL.RawQuery == "" || x.route.hasBody {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("malformed query: %w", err)
	}
	for name, values := range query {
		field := x.route.input.Fields().ByName(protoreflect.Name(name))
		if field == nil || x.params[name] != "" {
			continue
		}
		if len(values) > 1 {
			return fmt.Errorf("%s must be given once, got it %d times", name, len(values))
		}
		if err := x.checkParameter(field, values[0]); err != nil {
			return err
		}
		r.Form[name] = values
	}
	return nil
}

func (x *exchange) checkParameter(field protoreflect.FieldDescriptor, value string) (err error) {
	switch field.Kind() {
	case protoreflect.Int32Kind:
		return checkInteger(field, value, 32)
	case protoreflect.Int64Kind:
		return checkInteger(field, value, 64)
	case protoreflect.BoolKind:
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%s must be true or false, got %q", field.Name(), value)
		}
		return nil
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("%s must be UTF-8, got %q", field.Name(), value)
	}
	switch field.Name() {
	case "encoding":
		x.style.Values, err = textNamed(field, value)
	case "key_encoding":
		x.style.Keys, err = textNamed(field, value)
	}
	return err
}

func checkInteger(field protoreflect.FieldDescriptor, value string, bitSize int) error {
	if _, err := strconv.ParseInt(value, 10, bitSize); err != nil {
		return fmt.Errorf("%s must be an integer of %d bits, got %q", field.Name(), bitSize, value)
	}
	return nil
}

func textNamed(field protoreflect.FieldDescriptor, value string) (apijson.Text, error) {
	switch value {
	case "utf8":
		return apijson.UTF8, nil
	case "base64":
		return apijson.Base64, nil
	default:
		return 0, fmt.Errorf("%s must be utf8 or base64, got %q", field.Name(), value)
	}
}
