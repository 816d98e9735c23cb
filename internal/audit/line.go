package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// timeFormat is RFC 3339 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// maxLine bounds a line, in bytes. A cleaned event needs less than half of it.
const maxLine = 8 << 10

// An Entry is a line of the log.
type Entry struct {
	Time string `json:"time"` // RFC 3339, UTC
	Seq  int64  `json:"seq"`  // its number, from 1 on
	Prev string `json:"prev"` // the SHA-256 of the line before, without its end, in hexadecimal; "" in the first line

	// Rotated is set in the first line of a file that follows a full one, which may no longer be kept.
	Rotated bool `json:"rotated,omitempty"`
	Event
}

// now returns the time of an entry.
func now() string { return time.Now().UTC().Format(timeFormat) }

// entryOf returns an entry by which the log speaks of itself.
func entryOf(action, reason string) Entry {
	return Entry{Time: now(), Event: Event{Action: action, Outcome: Failed, Reason: reason}}
}

var errNoEntry = errors.New("it is no event of this log")

// parse returns the entry that a line has.
func parse(line []byte) (e Entry, err error) {
	if len(line) > maxLine || json.Unmarshal(line, &e) != nil || e.Seq < 1 || e.Action == "" {
		return Entry{}, errNoEntry
	}
	if _, err := time.Parse(time.RFC3339, e.Time); err != nil {
		return Entry{}, errNoEntry
	}
	return e, nil
}

// hashOf returns the hash of a line, in hexadecimal.
func hashOf(line []byte) string { return fmt.Sprintf("%x", sha256.Sum256(line)) }
