package apijson

import (
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Each byte that is not UTF-8 becomes
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	// appendText only reads, so looking at the string's own bytes is safe.
	return appendText(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
}

func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	done := 0 // text[:done] is written
	for i := 0; ; {
		i = plain(text, i)
		if i >= len(text) {
			break
		}
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, text[done:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				done = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, text[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		done = i
	}
	dst = append(dst, text[done:]...)
	return append(dst, '"')
}
