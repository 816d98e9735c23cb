//go:build linux

package main

import (
	"bytes"
	"os"
)

// readLines calls f with each line of a file, without its end. The line is valid until f
// returns.
func readLines(file *os.File, f func(line []byte)) {
	buffer, filled := make([]byte, 64<<10), 0
	for {
		n, err := file.Read(buffer[filled:])
		if err != nil {
			return
		}
		searched := filled // where no line ends before
		filled += n
		begin := 0
		for {
			end := bytes.IndexByte(buffer[searched:filled], '\n')
			if end < 0 {
				break
			}
			f(buffer[begin : searched+end])
			searched += end + 1
			begin = searched
		}
		filled = copy(buffer, buffer[begin:filled])
		if filled == len(buffer) {
			buffer = append(buffer, make([]byte, 3*len(buffer))...)
		}
	}
}

// A message is the envelope of a line. Its values are bytes of the line, nil for absent
// members.
type message struct {
	id, method   []byte
	idAt, params int // where they begin
}

// envelope finds the members of a message. It does not scan a result, nor parameters, that come
// after the other members, as they do in most messages.
func envelope(line []byte) (m message) {
	for i := 0; ; {
		key, from, ok := nextMember(line, i)
		isPayload := key == "params" || key == "result" || key == "error"
		if key == "params" {
			m.params = from
		}
		if !ok || isPayload && m.id != nil && (m.method != nil || key != "params") {
			return m
		}
		i = valueEnd(line, from)
		switch key {
		case "id":
			m.id, m.idAt = line[from:i], from
		case "method":
			m.method = line[from:i]
		}
	}
}

// member finds the value line[from:to] of a member of the object at line[at:]. Without the
// member, from and to are 0.
func member(line []byte, at int, name string) (from, to int) {
	for i := at; ; {
		key, from, ok := nextMember(line, i)
		if !ok {
			return 0, 0
		}
		if i = valueEnd(line, from); key == name {
			return from, i
		}
	}
}

// nextMember returns the key of the next member after line[i:], which begins with the brace of
// an object or with the end of a member, and where its value begins.
func nextMember(line []byte, i int) (key string, value int, ok bool) {
	if i = skipSpace(line, i); i >= len(line) || line[i] != '{' && line[i] != ',' {
		return "", 0, false
	}
	from := skipSpace(line, i+1)
	if from >= len(line) || line[from] != '"' {
		return "", 0, false
	}
	to := valueEnd(line, from)
	if i = skipSpace(line, to); i >= len(line) || line[i] != ':' {
		return "", 0, false
	}
	return string(line[from+1 : to-1]), skipSpace(line, i+1), true
}

func skipSpace(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns where the value at line[i:] ends.
func valueEnd(line []byte, i int) int {
	for depth := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(line))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i // of the object that a number ends
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(line)
}
