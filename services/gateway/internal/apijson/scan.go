package apijson

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep objects and lists may nest in a body. Our own messages
// need five.
const maxDepth = 64

// MaxElements is how many elements a list or map of a message may have. In
// memory an element takes up to a hundred times what it takes in a body ("{}"
// is a record), so the size of the body alone bounds nothing.
const MaxElements = 100_000

// A scanner reads JSON values from a body one after the other.
//
// It owns data: strings with escapes are unquoted in place, which is possible
// because no escape is shorter than what it stands for. Slices that it returns
// point into data.
type scanner struct {
	data []byte
	// data[:pos] is read. 0 <= pos <= len(data).
	pos int
	// How many objects and lists are open at pos.
	depth int
}

// peek skips white space and returns the byte after it, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end reports an error unless only white space is left.
func (s *scanner) end() error {
	s.peek()
	if s.pos < len(s.data) {
		return s.unexpected("the end of the body")
	}
	return nil
}

func (s *scanner) open() error {
	s.pos++
	s.depth++
	if s.depth > maxDepth {
		return s.malformed("nested deeper than %d", maxDepth)
	}
	return nil
}

func (s *scanner) close() {
	s.pos++
	s.depth--
}

// object reads the object at the cursor. For each name it calls field with the
// cursor at the value, which field must read.
func (s *scanner) object(field func(name []byte) error) error {
	if s.peek() != '{' {
		return s.mismatch("an object")
	}
	if err := s.open(); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.close()
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.unexpected("a name")
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected("':'")
		}
		s.pos++
		if err := field(name); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.close()
			return nil
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

// list reads the list at the cursor. For each element it calls item with its
// index and the cursor at the value, which item must read.
func (s *scanner) list(item func(i int) error) error {
	if s.peek() != '[' {
		return s.mismatch("a list")
	}
	if err := s.open(); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.close()
		return nil
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.close()
			return nil
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

// skip reads a value of any kind.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.list(func(int) error { return s.skip() })
	case c == '"':
		_, err := s.str()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		_, _, err := s.number()
		return err
	default:
		return s.unexpected("a value")
	}
}

// null reads a null if there is one at the cursor.
func (s *scanner) null() (bool, error) {
	if s.peek() != 'n' {
		return false, nil
	}
	return true, s.literal("null")
}

func (s *scanner) literal(word string) error {
	if !s.startsWith(word) {
		return s.unexpected(word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) startsWith(word string) bool {
	return len(s.data)-s.pos >= len(word) && string(s.data[s.pos:s.pos+len(word)]) == word
}

func (s *scanner) boolean() (bool, error) {
	switch s.peek() {
	case 't':
		return true, s.literal("true")
	case 'f':
		return false, s.literal("false")
	default:
		return false, s.mismatch("true or false")
	}
}

// number reads the number at the cursor and says whether it is written as an
// integer.
func (s *scanner) number() (text []byte, integer bool, err error) {
	start := s.pos
	if s.at() == '-' {
		s.pos++
	}
	switch c := s.at(); {
	case c == '0':
		s.pos++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return nil, false, s.unexpected("a digit")
	}
	integer = true
	if s.at() == '.' {
		integer = false
		s.pos++
		if !s.digits() {
			return nil, false, s.unexpected("a digit")
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		integer = false
		s.pos++
		if c := s.at(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return nil, false, s.unexpected("a digit")
		}
	}
	return s.data[start:s.pos], integer, nil
}

func (s *scanner) at() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// integer reads a signed integer of the given number of bits.
func (s *scanner) integer(bitSize int) (int64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.mismatch("an integer")
	}
	text, integer, err := s.number()
	if err != nil {
		return 0, err
	}
	if !integer {
		return 0, &Error{Reason: "must be an integer, got " + clip(text)}
	}
	// Up to 9 digits fit into 32 bits as well as into 64.
	if len(text) <= 9 && text[0] != '-' {
		n := int64(0)
		for _, c := range text {
			n = n*10 + int64(c-'0')
		}
		return n, nil
	}
	n, err := strconv.ParseInt(string(text), 10, bitSize)
	if err != nil {
		return 0, &Error{Reason: "must be an integer of " + strconv.Itoa(bitSize) + " bits, got " + clip(text)}
	}
	return n, nil
}

// clip shortens what a sender wrote for an error message.
func clip(text []byte) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}

// text reads the string at the cursor, whose bytes stay valid as long as data.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.mismatch("a string")
	}
	return s.str()
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, with the high bit, the first byte of w that cannot be taken as
// it is: a quote, a backslash, a control character or the start of a rune beyond
// ASCII. Bytes after the first may be marked wrongly (borrows run upwards).
func special(w uint64) uint64 {
	quote := w ^ ('"' * ones)
	slash := w ^ ('\\' * ones)
	return (w | (w-0x20*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}

// plain returns the first index from i on at which a special byte stands, or
// len(data).
func plain(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}

// str reads the string whose opening quote is at the cursor.
func (s *scanner) str() ([]byte, error) {
	start := s.pos + 1
	for i := start; ; {
		i = plain(s.data, i)
		if i >= len(s.data) {
			s.pos = i
			return nil, s.unexpected("the end of a string")
		}
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[start:i:i], nil
		case c == '\\':
			return s.unquote(start, i)
		case c < utf8.RuneSelf:
			s.pos = i
			return nil, s.malformed("control character in a string")
		default:
			n := s.rune(i)
			if n == 0 {
				return nil, s.malformed("not UTF-8")
			}
			i += n
		}
	}
}

// rune returns the length of the rune at i, or puts the cursor there and returns
// 0 when it is not UTF-8.
func (s *scanner) rune(i int) int {
	r, n := utf8.DecodeRune(s.data[i:])
	if r == utf8.RuneError && n <= 1 {
		s.pos = i
		return 0
	}
	return n
}

// unquote reads on in the string that began at start, from a backslash at r, and
// moves what it reads down over the escapes.
func (s *scanner) unquote(start, r int) ([]byte, error) {
	w := r
	for {
		next := plain(s.data, r)
		w += copy(s.data[w:], s.data[r:next])
		r = next
		if r >= len(s.data) {
			s.pos = r
			return nil, s.unexpected("the end of a string")
		}
		switch c := s.data[r]; {
		case c == '"':
			s.pos = r + 1
			return s.data[start:w:w], nil
		case c == '\\':
			var n int
			var err error
			s.pos = r
			if r, n, err = s.escape(r, w); err != nil {
				return nil, err
			}
			w += n
		case c < utf8.RuneSelf:
			s.pos = r
			return nil, s.malformed("control character in a string")
		default:
			n := s.rune(r)
			if n == 0 {
				return nil, s.malformed("not UTF-8")
			}
			w += copy(s.data[w:], s.data[r:r+n])
			r += n
		}
	}
}

// escape writes what the escape at r stands for to w. It returns the index after
// the escape and the number of bytes written. w <= r.
func (s *scanner) escape(r, w int) (next, n int, err error) {
	if r+1 >= len(s.data) {
		return 0, 0, s.malformed("unfinished escape")
	}
	c := s.data[r+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.unicodeEscape(r, w)
	default:
		return 0, 0, s.malformed("unknown escape '\\%c'", c)
	}
	s.data[w] = c
	return r + 2, 1, nil
}

func (s *scanner) unicodeEscape(r, w int) (next, n int, err error) {
	u, ok := hex4(s.data, r+2)
	if !ok {
		return 0, 0, s.malformed("'\\u' needs four hexadecimal digits")
	}
	r += 6
	if utf16.IsSurrogate(u) {
		low, ok := rune(0), false
		if r+1 < len(s.data) && s.data[r] == '\\' && s.data[r+1] == 'u' {
			low, ok = hex4(s.data, r+2)
		}
		if u = utf16.DecodeRune(u, low); !ok || u == utf8.RuneError {
			return 0, 0, s.malformed("lone surrogate in a string")
		}
		r += 6
	}
	return r, utf8.EncodeRune(s.data[w:w+utf8.UTFMax], u), nil
}

func hex4(data []byte, i int) (rune, bool) {
	if len(data)-i < 4 {
		return 0, false
	}
	u := rune(0)
	for _, c := range data[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | rune(c)
	}
	return u, true
}
