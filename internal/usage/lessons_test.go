package usage

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A use after a search that was not sure, or that did not list the tool, counts double, within
// the bounds of a client.
func TestDoubleVote(t *testing.T) {
	for _, u := range []Use{{Unsure: true}, {Unlisted: true}, {Unsure: true, Unlisted: true, First: true}} {
		s := inMemory(t)
		u.Client, u.Words, u.Tool = "a", []string{"send", "mail"}, "x:y"
		for i := range 100 {
			u.At = start.Add(time.Duration(i) * time.Minute)
			s.Record(u)
			want(t, s, "send mail", "x:y", u.At, 0.6)
		}
		call(s, "a", "send mail", "x:y", u.At)
		want(t, s, "send mail", "x:y", u.At, 0.6)
		u.At = u.At.Add(aDay)
		s.Record(u)
		want(t, s, "send mail", "x:y", u.At, 0.6)
		fail(s, "b", "send mail", "x:y", u.At)
		want(t, s, "send mail", "x:y", u.At, 0.3)
	}
	s := inMemory(t)
	s.Record(Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Unsure: true, At: start})
	fail(s, "a", "mail", "x:y", start) // takes back what the client gave
	want(t, s, "mail", "x:y", start, 0)
}

// Evidence from a query that is only alike does not decide, however strong it is.
func TestAlikeDoesNotDecide(t *testing.T) {
	s := inMemory(t)
	for i := range maxClients {
		s.Record(Use{Client: fmt.Sprint(i), Words: []string{"open", "login", "issu"}, Tool: "x:y", Unsure: true, At: start})
	}
	want(t, s, "issu login open", "x:y", start, 1)
	want(t, s, "close login issu", "x:y", start, mostAlike)
}

func TestGuess(t *testing.T) {
	s := inMemory(t)
	guess := Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Unlisted: true, Guess: true, At: start}
	s.Record(guess)
	want(t, s, "mail", "x:y", start, 0)
	s.Record(Use{Client: "b", Words: []string{"mail"}, Tool: "x:y", Unlisted: true, Guess: true, At: start})
	want(t, s, "mail", "x:y", start, 0) // of another client
	guess.At = start.Add(2 * aDay)      // is still remembered
	for range 2 {                       // and confirmed
		data, err := encode(head{version, 0}, ranked(s.memory.lines(), guess.At.UnixMilli()))
		if _, lines, _ := decode(data); err != nil || len(lines) != 1 || len(lines[0].Queries[0].Marks) == 0 {
			t.Fatalf("saved is %s, %v", data, err)
		}
		s.Record(guess)
		want(t, s, "mail", "x:y", guess.At, 0.6)
	}
	if left := ranked(inMemoryWith(t, Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Guess: true, At: start}).memory.lines(), start.Add(8*aDay).UnixMilli()); len(left) > 0 {
		t.Errorf("a guess that is not confirmed stays: %v", left)
	}
}

func inMemoryWith(t *testing.T, u Use) *Store {
	s := inMemory(t)
	s.Record(u)
	return s
}

func TestWithdrawn(t *testing.T) {
	s := inMemoryWith(t, Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Unlisted: true, At: start})
	call(s, "b", "mail", "x:y", start)
	s.Record(Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Withdrawn: true, At: start})
	want(t, s, "mail", "x:y", start, 0.3) // of the other client
	if e := s.Tools(); len(e) > 0 && e[0].Calls != 2 {
		t.Errorf("%d calls", e[0].Calls)
	}
	// It stands when it meets the vote in another router's file.
	before := inMemoryWith(t, Use{Client: "a", Words: []string{"mail"}, Tool: "x:y", Unlisted: true, At: start})
	marks := merged(s.memory.tools["x:y"].uses[0].marks, before.memory.tools["x:y"].uses[0].marks, start.UnixMilli())
	if got := strength(marks, start.UnixMilli()); got != 1 {
		t.Errorf("merged are %v votes", got)
	}
}

// A query is kept as it was typed: bounded, on one line, without secrets.
func TestTyped(t *testing.T) {
	for typed, want := range map[string]string{
		"Send  a mail\nto Ann":                            "Send a mail to Ann",
		"log in with password hunter2":                    "log in with password …",
		strings.Repeat("ä", 150):                          strings.Repeat("ä", 98) + "…",
		strings.Repeat("word ", 300) + " token=abcdef123": strings.Repeat("word ", 39) + "wo…",
		strings.Repeat("x", 9*maxTyped):                   "",
		"\xff\xfe":                                        "",
	} {
		s := inMemory(t)
		s.Record(Use{Client: "a", Task: typed, Words: []string{"mail"}, Tool: "x:y", At: time.Now()})
		if got := s.Tools()[0].Queries[0].Typed; got != want || len(got) > maxTyped {
			t.Errorf("%.40q is kept as %q, want %q", typed, got, want)
		}
	}
	s := inMemory(t)
	for _, typed := range []string{"one way", "another way", ""} {
		s.Record(Use{Client: "a", Task: typed, Words: []string{"mail"}, Tool: "x:y", At: time.Now()})
	}
	if got := s.Tools()[0].Queries[0].Typed; got != "another way" || s.memory.size != cost("mail")+len(got) {
		t.Errorf("kept is %q, in all %d bytes", got, s.memory.size)
	}
	s.memory.drop(s.memory.tools["x:y"].uses[0])
	if s.memory.size != 0 {
		t.Errorf("%d bytes are left", s.memory.size)
	}
}

// Files of earlier versions have no typed queries.
func TestOldFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	now := time.Now()
	old := fmt.Sprintf("{\"usage\":1}\n{\"tool\":\"x:y\",\"calls\":3,\"queries\":[{\"words\":[\"send\",\"mail\"],\"marks\":[{\"who\":7,\"at\":%d,\"base\":1,\"vote\":1}]}]}\n", now.UnixMilli())
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	want(t, s, "send mail", "x:y", now, 0.6)
	s.Record(Use{Client: "a", Task: "Send mail", Words: []string{"send", "mail"}, Tool: "x:y", At: now})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	q := open(t, dir).Tools()[0].Queries[0]
	if q.Typed != "Send mail" || math.Abs(q.Votes-3) > 0.01 || q.Last.UnixMilli() != now.UnixMilli() {
		t.Errorf("read %+v", q)
	}
	// A file of someone else's making is masked too.
	forged := strings.Replace(old, `"words"`, `"typed":"the password is hunter2\u001b[2J","words"`, 1)
	if err := os.WriteFile(s.path, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir, []string{"config"}, zap.NewNop())
	if err != nil || strings.Contains(other.Tools()[0].Queries[0].Typed, "hunter") {
		t.Errorf("read %+v, %v", other.Tools(), err)
	}
}
