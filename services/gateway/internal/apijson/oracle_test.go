package apijson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

// The oracle reads bodies the slow and obvious way: encoding/json makes a tree
// of them, and the rules of the package comment are applied to that.

type member struct {
	name  string
	value any
}

type object []member

var errNotJSON = errors.New("not JSON")

// surrogate finds bodies on which encoding/json is lenient where we are not.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

func tree(data []byte) (any, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errNotJSON
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return subtree(dec, 0)
}

func subtree(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == 64 {
		return nil, errors.New("too deep")
	}
	if delim == '[' {
		list := []any{}
		for dec.More() {
			v, err := subtree(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	obj := object{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := subtree(dec, depth+1)
		if err != nil {
			return nil, err
		}
		obj = append(obj, member{name.(string), v})
	}
	_, err = dec.Token()
	return obj, err
}

func oracleProduce(data []byte) (*logv1.ProduceRequest, error) {
	t, err := tree(data)
	if err != nil {
		return nil, err
	}
	root, ok := t.(object)
	if !ok {
		return nil, errors.New("not an object")
	}
	m := &logv1.ProduceRequest{}
	for _, f := range root {
		switch f.name {
		case "producer_id":
			if m.ProducerId, err = oracleString(f.value); err != nil {
				return nil, err
			}
		case "records":
			m.Records = nil
			if f.value == nil {
				continue
			}
			list, ok := f.value.([]any)
			if !ok || len(list) > apijson.MaxElements {
				return nil, errors.New("records")
			}
			for _, item := range list {
				r, err := oracleRecord(item)
				if err != nil {
					return nil, err
				}
				m.Records = append(m.Records, r)
			}
		}
	}
	return m, nil
}

func oracleRecord(v any) (*logv1.ProduceRecord, error) {
	obj, ok := v.(object)
	if !ok {
		return nil, errors.New("not an object")
	}
	r := &logv1.ProduceRecord{}
	for _, f := range obj {
		switch f.name {
		case "key", "value":
			text, err := oracleString(f.value)
			if err != nil {
				return nil, err
			}
			var b []byte
			if text != nil {
				b = []byte(*text)
			}
			if f.name == "key" {
				r.Key = b
			} else {
				r.Value = b
			}
		case "partition":
			n, err := oracleInt(f.value, 32)
			if err != nil {
				return nil, err
			}
			r.Partition = nil
			if n != nil {
				p := int32(*n)
				r.Partition = &p
			}
		case "sequence":
			n, err := oracleInt(f.value, 64)
			if err != nil {
				return nil, err
			}
			r.Sequence = n
		}
	}
	return r, nil
}

func oracleConfig(data []byte) (*logv1.TopicConfig, error) {
	t, err := tree(data)
	if err != nil {
		return nil, err
	}
	root, ok := t.(object)
	if !ok {
		return nil, errors.New("not an object")
	}
	m := &logv1.TopicConfig{}
	unlimited := func(v any) (*int64, error) {
		n, err := oracleInt(v, 64)
		if err == nil && n == nil {
			n = new(int64)
			*n = -1
		}
		return n, err
	}
	for _, f := range root {
		switch f.name {
		case "retention_ms":
			m.RetentionMs, err = unlimited(f.value)
		case "retention_bytes":
			m.RetentionBytes, err = unlimited(f.value)
		case "cleanup_policy":
			m.CleanupPolicy, err = oracleString(f.value)
		case "segment_bytes":
			m.SegmentBytes, err = oracleInt(f.value, 64)
		case "tombstone_retention_ms":
			m.TombstoneRetentionMs, err = oracleInt(f.value, 64)
		default:
			var text *string
			if text, err = oracleString(f.value); err == nil && text == nil {
				err = errors.New("null")
			}
			if err == nil {
				if m.Kafka == nil {
					m.Kafka = make(map[string]string)
				}
				m.Kafka[f.name] = *text
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func oracleString(v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	return &s, nil
}

func oracleInt(v any, bits int) (*int64, error) {
	if v == nil {
		return nil, nil
	}
	number, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	n, err := strconv.ParseInt(number.String(), 10, bits)
	return &n, err
}
