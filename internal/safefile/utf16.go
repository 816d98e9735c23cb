package safefile

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// UTF8 returns the content of a text file as UTF-8: UTF-16, as some editors and shells of Windows write it, is converted.
// Everything else is returned as it is.
func UTF8(data []byte) []byte {
	order := orderOf(data)
	if order == nil {
		return data
	}
	units := make([]uint16, 0, len(data)/2)
	for ; len(data) >= 2; data = data[2:] {
		units = append(units, order.Uint16(data))
	}
	return []byte(string(utf16.Decode(units)))
}

// Like returns a text in UTF-8 in the encoding of the content that UTF8 got.
func Like(content, text []byte) []byte {
	order := orderOf(content)
	if order == nil {
		return text
	}
	var data []byte
	for _, unit := range utf16.Encode([]rune(string(text))) {
		data = order.AppendUint16(data, unit)
	}
	return data
}

// orderOf returns the byte order of UTF-16 that begins with a mark, or with a character of ASCII; nil for other content.
func orderOf(data []byte) interface {
	binary.ByteOrder
	binary.AppendByteOrder
} {
	half := func(i int) bool { return len(data) > 1 && data[i] == 0 && data[1-i] != 0 } // of a character
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), half(1):
		return binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}), half(0):
		return binary.BigEndian
	}
	return nil
}
