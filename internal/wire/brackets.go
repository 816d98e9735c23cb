package wire

import "bytes"

// BOM is the byte order mark of UTF-8, which some programs write first.
var BOM = []byte("\ufeff")

// Brackets finds the end of a JSON object that arrives in parts. It counts brackets outside of
// strings, and is no check of the JSON. The zero value is before the object.
type Brackets struct {
	depth            int
	begun            bool
	text             bool // in a string
	escaped          bool // after a backslash in a string
	closed, hopeless bool
}

// Count reads the next part, up to the end of the object, and returns how much of it that is. Of
// a text that does not begin with a bracket, after white space and a [BOM], it reads all.
func (b *Brackets) Count(part []byte) (n int) {
	if !b.begun && !b.hopeless {
		rest := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(part, " \t\r\n"), BOM), " \t\r\n")
		if len(rest) == 0 {
			return len(part)
		}
		b.begun, b.hopeless = rest[0] == '{', rest[0] != '{'
		n = len(part) - len(rest)
	}
	if b.hopeless || b.closed {
		return len(part)
	}
	for ; n < len(part); n++ {
		switch c := part[n]; {
		case b.escaped:
			b.escaped = false
		case b.text:
			b.escaped, b.text = c == '\\', c != '"'
		case c == '"':
			b.text = true
		case c == '{', c == '[':
			b.depth++
		case c == '}', c == ']':
			if b.depth--; b.depth == 0 {
				b.closed = true
				return n + 1
			}
		}
	}
	return n
}

// Closed reports whether the end of the object was read.
func (b *Brackets) Closed() bool { return b.closed }

// Open reports whether the object has begun and may go on in a next line, which a string can't.
func (b *Brackets) Open() bool { return b.begun && !b.closed && !b.text }
