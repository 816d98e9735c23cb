package mcptest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// An Event is one event of an SSE stream.
type Event struct{ ID, Name, Data string }

// Events calls f with each event until the stream ends or f returns an error, which Events
// returns.
func Events(stream io.Reader, f func(Event) error) error {
	r := bufio.NewReader(stream)
	var e Event
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		text := strings.TrimPrefix(string(value), " ")
		switch string(field) {
		case "id":
			e.ID = text
		case "event":
			e.Name = text
		case "data":
			if e.Data != "" {
				e.Data += "\n"
			}
			e.Data += text
		case "":
			if len(value) > 0 {
				continue // a comment
			}
			if e != (Event{}) {
				if err := f(e); err != nil {
					return err
				}
			}
			e = Event{}
		}
	}
}
