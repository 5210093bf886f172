// Package apijson is the JSON of the public API: how the messages of
// sluice.log.v1 are read from request bodies and written into answers.
//
// # The mapping
//
// Names are those of the proto fields, in snake case, and match exactly. All
// integers are JSON numbers, 64-bit ones too: no client of an API whose offsets
// stay below 2^53 gains from strings. What differs from this for a field is said
// by its (sluice.api.v1.json) option:
//
//	flatten          map<K,V>        its entries stand in the enclosing object
//	null_value       int64           that number is null, both ways
//	text             bytes           UTF-8 text, or base64 where the request asks
//	null_when_unset  optional        null instead of being left out
//	omit_zero        any             left out when zero; all others are shown
//
// # What is refused
//
// A body is one JSON object and nothing after it. Strings are UTF-8 and have no
// lone surrogates: replacing either would store something that was not sent.
// An integer is written without fraction, exponent or quotes. Unknown names are
// skipped, whatever they hold, up to a depth of maxDepth. Of equal names the
// last counts, as a whole: objects and lists are replaced, never merged. null is
// the same as leaving the field out, unless the field has a null_value.
//
// # Two codecs
//
// One codec walks descriptors and does all messages. Three messages carry
// records (ProduceRequest, ProduceResponse, ConsumeResponse) and have one
// written by hand; fuzz tests hold it to the other, and both to encoding/json.
package apijson
