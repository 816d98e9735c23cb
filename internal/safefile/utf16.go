package safefile

import (
	"bytes"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// UTF8 returns the content of a text file as UTF-8: UTF-16, as some editors and shells of Windows write it, is converted.
// Everything else is returned as it is.
func UTF8(data []byte) []byte {
	utf16 := encodingOf(data)
	if utf16 == nil {
		return data
	}
	text, _ := utf16.NewDecoder().Bytes(data[:len(data)&^1]) // without half a character; others can all be read
	return text
}

// Like returns a text in UTF-8 in the encoding of the content that UTF8 got.
func Like(content, text []byte) []byte {
	utf16 := encodingOf(content)
	if utf16 == nil {
		return text
	}
	data, _ := utf16.NewEncoder().Bytes(text) // all characters have one
	return data
}

// encodingOf returns the UTF-16 that begins with a mark, which counts as text, or with a character of ASCII; nil for other content.
func encodingOf(data []byte) encoding.Encoding {
	half := func(i int) bool { return len(data) > 1 && data[i] == 0 && data[1-i] != 0 } // of a character
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), half(1):
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}), half(0):
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil
}
