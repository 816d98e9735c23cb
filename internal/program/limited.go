package program

import "bytes"

// Limited keeps the first Left bytes that are written to it, such as the output of a program.
type Limited struct {
	bytes.Buffer
	Left int
}

// Write implements [io.Writer]. It reports the bytes that are not kept as written, too.
func (l *Limited) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.Left)]
	l.Left -= len(keep)
	l.Buffer.Write(keep)
	return len(p), nil
}
