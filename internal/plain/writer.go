package plain

import (
	"fmt"
	"io"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// A Writer cleans all that is written to it, as [Text] or [JSON] does. It may be used by
// many goroutines at once.
type Writer struct {
	clean func([]byte) []byte

	mu   sync.Mutex // guards out and part
	out  io.Writer
	part []byte // of a character that is not complete yet
}

// NewWriter returns a Writer of text for a person. own reports whether a control sequence is
// one that the program itself writes, such as a colour, and stays; may be nil.
func NewWriter(out io.Writer, own func(sequence string) bool) *Writer {
	return &Writer{out: out, clean: func(p []byte) []byte { return []byte(textWith(string(p), own)) }}
}

// NewEscaper returns a Writer of lines with JSON in them, such as a log.
func NewEscaper(out io.Writer) *Writer { return &Writer{out: out, clean: JSON} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.part, p...)
	end := len(all) - Unfinished(all)
	w.part = append([]byte(nil), all[end:]...)
	if _, err := w.out.Write(w.clean(all[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unfinished returns how many bytes at the end of p begin a character.
func Unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// JSON returns the bytes with each control character but line ends and tabs, each hidden
// character, and each byte that is not UTF-8 as an escape of JSON, so that a value with
// them reads as before.
func JSON(p []byte) []byte {
	if isPlain(string(p), true) {
		return p
	}
	text := string(p)
	b := make([]byte, 0, len(p)+len(p)/8)
	var before rune
	for i, r := range text {
		hidden := isControl(r) && r != '\n' && r != '\t' || r == lineEnd || r == paragraph || r == utf8.RuneError ||
			isHidden(text, i, before, r)
		before = r
		switch {
		case !hidden:
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}
