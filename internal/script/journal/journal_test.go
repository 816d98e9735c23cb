package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const rules = "the rules"

func open(t *testing.T, folder string) *Store {
	t.Helper()
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t *testing.T, s *Store, id uint64) *Journal {
	t.Helper()
	j, err := s.Begin("", id, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(true) })
	return j
}

func resume(t *testing.T, s *Store, id uint64) *Journal {
	t.Helper()
	j, err := s.Resume("", id, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(true) })
	return j
}

// answersOf returns the answers of the run before.
func answersOf(j *Journal) (all []script.Answer) {
	for {
		a, ok := j.Next()
		if !ok {
			return all
		}
		all = append(all, a)
	}
}

// A script goes on in another process with the answers that it got, and it is known which calls were sent.
func TestResume(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "scripts")
	answers := []script.Answer{{Number: 2, Asked: "b", Value: json.RawMessage(`{"n":1}`)}, {Number: 1, Asked: "a", Error: "no", Retry: true}}
	j := begin(t, open(t, folder), 7)
	for number := 1; number <= 3; number++ {
		if before, err := j.Send(number, false); err != nil || before {
			t.Fatalf("call %d was sent by the run before: %v, %v", number, before, err)
		}
	}
	for _, a := range answers {
		j.Answered(a)
	}
	begun := j.Begun()
	j.Close(true)

	s := open(t, folder)
	j = resume(t, s, 7)
	if !j.Begun().Equal(begun) || j.Result() != nil {
		t.Errorf("begun at %v, want %v; result %s", j.Begun(), begun, j.Result())
	}
	if got := answersOf(j); !reflect.DeepEqual(got, answers) {
		t.Errorf("the answers %+v, want %+v", got, answers)
	}
	for number := 3; number <= 4; number++ {
		if before, err := j.Send(number, false); before != (number == 3) || err != nil {
			t.Errorf("call %d was sent: %v, %v", number, before, err)
		}
	}
	if _, err := s.Resume("", 7, rules); !errors.Is(err, errRuns) {
		t.Errorf("twice at once: %v", err)
	}
	if err := j.End(json.RawMessage(`{"content":[]}`)); err != nil {
		t.Fatal(err)
	}
	j.Close(true)
	if j = resume(t, s, 7); string(j.Result()) != `{"content":[]}` || answersOf(j) != nil {
		t.Errorf("after the end: the result %s", j.Result())
	}
}

// A journal is unknown under other rules, with another key, and after a stranger has changed it. A record that
// is cut off is as if it had not been written.
func TestUnknown(t *testing.T) {
	for name, change := range map[string]func(s *Store, path string) (rules string, err error){
		"under other rules": func(*Store, string) (string, error) { return "others", nil },
		"with another key":  func(s *Store, _ string) (string, error) { s.key[0]++; return rules, nil },
		"removed":           func(_ *Store, path string) (string, error) { return rules, os.Remove(path) },
		"too old": func(_ *Store, path string) (string, error) {
			long := time.Now().Add(-2 * Lifetime)
			return rules, os.Chtimes(path, long, long)
		},
		"changed": func(_ *Store, path string) (string, error) {
			data, err := os.ReadFile(path)
			if err == nil {
				data[20]++
				err = os.WriteFile(path, data, 0o600)
			}
			return rules, err
		},
		"with its records in another order": func(_ *Store, path string) (string, error) {
			data, err := os.ReadFile(path)
			if err == nil {
				first := 4 + int(data[2])<<8 + int(data[3])
				err = os.WriteFile(path, append(bytes.Clone(data[first:]), data[:first]...), 0o600)
			}
			return rules, err
		},
	} {
		s := open(t, t.TempDir())
		j := begin(t, s, 1)
		j.Answered(script.Answer{Number: 1})
		j.Close(true)
		under, err := change(s, j.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Resume("", 1, under); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}

	s := open(t, t.TempDir())
	j := begin(t, s, 1)
	j.Answered(script.Answer{Number: 1})
	j.Flush()
	j.Answered(script.Answer{Number: 2})
	j.Close(true)
	if err := os.Truncate(j.path, int64(j.size-3)); err != nil {
		t.Fatal(err)
	}
	j = resume(t, s, 1)
	j.Answered(script.Answer{Number: 3})
	j.Close(true)
	if got := answersOf(resume(t, s, 1)); len(got) != 2 || got[1].Number != 3 {
		t.Errorf("after a record was cut off: %+v", got)
	}
}

// One principal's records leave room for those of others, and its own again once they are gone.
func TestShares(t *testing.T) {
	s := open(t, t.TempDir())
	half := script.Answer{Number: 1, Value: json.RawMessage(`"` + strings.Repeat("a", maxShare/2) + `"`)}
	for i, whole := range []bool{true, false} {
		j := begin(t, s, uint64(i))
		j.Answered(half)
		if j.Flush() != whole {
			t.Errorf("script %d of the principal: %v, want %v", i+1, !whole, whole)
		}
		if err := errors.Join(j.End(json.RawMessage(`{}`)), j.Close(true)); err != nil {
			t.Error(err)
		}
		if i > 0 {
			continue
		}
		keep := begin(t, s, 5)
		keep.Answered(half)
		keep.Flush()
	}
	one, next := begin(t, s, 6), begin(t, s, 7)
	rest := script.Answer{Number: 1, Value: json.RawMessage(`"` + strings.Repeat("a", maxShare/3) + `"`)}
	for _, j := range []*Journal{one, next} {
		if j.Answered(rest); !j.Flush() {
			t.Error("a script that has ended takes up bytes")
		}
		j.Close(false)
	}
	other, err := s.Begin("another", 9, rules)
	if err != nil {
		t.Fatal(err)
	}
	if other.Answered(half); !other.Flush() {
		t.Error("another principal has no room")
	}
	other.Close(true)
	if _, err := s.Resume("", 9, rules); !errors.Is(err, ErrUnknown) {
		t.Errorf("the script of another principal: %v", err)
	}
}

// What the next call depends on is on disk before it is sent, and an answer after which no call comes is written, too.
func TestAnswersAreWritten(t *testing.T) {
	s := open(t, t.TempDir())
	j := begin(t, s, 1)
	size := func() int64 {
		info, err := os.Stat(j.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	send := func(number int) (before int64) {
		if _, err := j.Send(number, false); err != nil {
			t.Fatal(err)
		}
		if j.Flush() {
			t.Errorf("call %d is under way, but the script could go on without its answer", number)
		}
		return size()
	}
	for number := 1; number <= 2; number++ {
		before := send(number)
		j.mu.Lock()
		j.timer = time.NewTimer(time.Hour) // in place of the one of the answer
		j.mu.Unlock()
		if j.Answered(script.Answer{Number: number, Asked: "a"}); size() != before {
			t.Error("an answer is written by itself")
		}
	}
	before := send(3)
	j.Answered(script.Answer{Number: 3, Asked: "a"})
	mcptest.WaitFor(t, "the last answer", func() bool { return size() > before })
	if _, err := j.Send(9, true); err != nil || !j.Flush() { // such as a stored script, which waits for a person
		t.Errorf("the script can't go on: %v", err)
	}
	j.Close(true)
	if j = resume(t, s, 1); len(answersOf(j)) != 3 || j.Flush() {
		t.Error("answers are missing")
	}
}

// The file holds no text of the script, is removed with the script, and is bounded.
func TestBounds(t *testing.T) {
	s := open(t, t.TempDir())
	j := begin(t, s, 1)
	j.Answered(script.Answer{Number: 1, Value: json.RawMessage(`"a secret"`)})
	if data, err := os.ReadFile(j.path); err != nil || bytes.Contains(data, []byte("secret")) {
		t.Errorf("%q, %v", data, err)
	}
	j.Answered(script.Answer{Number: 2, Value: json.RawMessage(`"` + string(bytes.Repeat([]byte("a"), maxShare)) + `"`)})
	if _, err := j.Send(3, false); err != nil {
		t.Errorf("after too large an answer, sending: %v", err)
	}
	j.Close(true)
	if _, err := s.Resume("", 1, rules); !errors.Is(err, ErrUnknown) {
		t.Errorf("after too large an answer: %v", err)
	}
	long := time.Now().Add(-2 * Lifetime)
	if err := os.Chtimes(j.path, long, long); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.folder)
	if _, err := os.Stat(j.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is too old, after the start: %v", err)
	}
	j = begin(t, s, 2)
	j.Close(false)
	if _, err := os.Stat(j.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a script that has ended: %v", err)
	}
	if _, err := j.Send(4, false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end, sending: %v", err)
	}
}

// A journal that a router left behind is removed by the next one that starts after its lifetime.
func TestOpenRemovesOldFiles(t *testing.T) {
	folder := t.TempDir()
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[uint64]string)
	for id, age := range map[uint64]time.Duration{1: 2 * Lifetime, 2: 0} {
		j, err := s.Begin("", id, rules)
		if err == nil {
			paths[id] = j.path
			err = j.Close(true)
		}
		if err == nil {
			then := time.Now().Add(-age)
			err = os.Chtimes(j.path, then, then)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err = Open(folder); err != nil {
		t.Fatal(err)
	}
	for id, kept := range map[uint64]bool{1: false, 2: true} {
		if _, err := os.Stat(paths[id]); (err == nil) != kept {
			t.Errorf("%d: %v", id, err)
		}
	}
}

// BenchmarkCalls notes 1,000 calls whose results have 100 bytes.
func BenchmarkCalls(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	value := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}`)
	for b.Loop() {
		j, err := s.Begin("", 1, rules)
		for i := range 1000 {
			_, sending := j.Send(i, false)
			err = errors.Join(err, sending)
			j.Answered(script.Answer{Number: i, Asked: "0123456789abcdef", Value: value})
		}
		if err = errors.Join(err, j.Close(false)); err != nil {
			b.Fatal(err)
		}
	}
}
