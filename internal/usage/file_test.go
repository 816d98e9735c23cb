package usage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// open returns the store of a folder.
func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, []string{"config"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running starts the store, and returns what stops it and waits for it.
func running(t *testing.T, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		stop := running(t, s)
		time.Sleep(time.Hour)
		stop()
		if _, err := os.Stat(s.path); err == nil {
			t.Error("saved although nothing was learned")
		}
		stop = running(t, s)
		call(s, "a", "send mail", "x:y", time.Now())
		time.Sleep(saveDelay - time.Second)
		synctest.Wait()
		if _, err := os.Stat(s.path); err == nil {
			t.Error("saved at once")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(t, open(t, dir), "send mail", "x:y", time.Now(), 0.3)
		if info, err := os.Stat(s.path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read the file: %v, %v", info, err)
		}
		call(s, "b", "send mail", "x:y", time.Now())
		stop()
		again := open(t, dir)
		want(t, again, "send mail", "x:y", time.Now(), 0.6)
		if !reflect.DeepEqual(again.Tools(), s.Tools()) {
			t.Errorf("saved was %+v, loaded %+v", s.Tools(), again.Tools())
		}
		other, err := Open(dir, []string{"other"}, zap.NewNop())
		if err != nil || len(other.Tools()) != 0 {
			t.Errorf("another configuration knows %v, %v", other.Tools(), err)
		}
	})
}

func TestSharedFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, b := open(t, dir), open(t, dir)
		stopA, stopB := running(t, a), running(t, b)
		for i := range 5 {
			call(a, "a", fmt.Sprint("of a ", i), "x:a", time.Now())
			call(b, "b", fmt.Sprint("of b ", i), "x:b", time.Now())
			call(a, "a", "of both", "x:both", time.Now())
			call(b, "b", "of both", "x:both", time.Now())
			time.Sleep(saveDelay * 3 / 2)
		}
		time.Sleep(time.Second) // one that ends while another saves may lose the latest lessons
		stopA()
		stopB()
		c := open(t, dir)
		now := time.Now()
		want(t, c, "of both", "x:both", now, 0.6)
		want(t, b, "of both", "x:both", now, 0.6) // learned from the other
		for i := range 5 {
			want(t, c, fmt.Sprint("of a ", i), "x:a", now, 0.3)
			want(t, c, fmt.Sprint("of b ", i), "x:b", now, 0.3)
		}
		if tools := c.Tools(); len(tools) != 3 || tools[0].Calls != 5 {
			t.Errorf("known are %+v", tools)
		}
		// What a client said last counts, whichever router it said it to.
		fail(a, "a", "of both", "x:both", now.Add(time.Second))
		call(b, "b", "more of b", "x:b", now)
		for _, s := range []*Store{b, a, b} {
			if err := s.save(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []*Store{a, b, open(t, dir)} {
			want(t, s, "of both", "x:both", now.Add(time.Second), 0.3)
			want(t, s, "more of b", "x:b", now, 0.3)
		}
	})
}

// What another router overwrote, because both saved at once, is saved again at
// the end.
func TestOverwrittenFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		stop := running(t, s)
		call(s, "a", "send mail", "x:y", time.Now())
		time.Sleep(2 * saveDelay)
		synctest.Wait()
		other := open(t, "")
		other.path = s.path
		call(other, "b", "read file", "x:z", time.Now())
		if err := other.write(); err != nil { // without reading
			t.Fatal(err)
		}
		stop()
		last := open(t, dir)
		want(t, last, "send mail", "x:y", time.Now(), 0.3)
		want(t, last, "read file", "x:z", time.Now(), 0.3)
	})
}

func TestConcurrentSaves(t *testing.T) {
	dir := t.TempDir()
	stores := []*Store{open(t, dir), open(t, dir)}
	now := time.Now()
	var group sync.WaitGroup
	for i, s := range stores {
		group.Go(func() {
			for j := range 200 {
				call(s, fmt.Sprint("client", i), fmt.Sprint("query ", j), fmt.Sprint("x:", j), now)
				s.Match([]string{"query"}, now)
			}
		})
		group.Go(func() {
			for range 20 {
				if err := s.save(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, s := range []*Store{stores[0], stores[1], stores[0]} {
		if err := s.save(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range append(stores, open(t, dir)) {
		for j := range 200 {
			want(t, s, fmt.Sprint("query ", j), fmt.Sprint("x:", j), now, 0.6)
		}
	}
}

func TestClear(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		router := open(t, dir)
		stop := running(t, router)
		call(router, "a", "send mail", "x:y", time.Now())
		time.Sleep(saveDelay + time.Second)
		if err := open(t, dir).Clear(); err != nil { // as the command does
			t.Fatal(err)
		}
		if tools := open(t, dir).Tools(); len(tools) != 0 {
			t.Errorf("left in the file: %v", tools)
		}
		time.Sleep(time.Second)
		call(router, "a", "read file", "x:z", time.Now())
		stop()
		for name, s := range map[string]*Store{"router": router, "file": open(t, dir)} {
			if tools := s.Tools(); len(tools) != 1 || tools[0].Tool != "x:z" {
				t.Errorf("the %s knows %v", name, tools)
			}
		}
	})
}

func TestRunWithoutFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*Store{nil, open(t, "")} {
			stop := running(t, s)
			call(s, "a", "send mail", "x:y", time.Now())
			time.Sleep(time.Minute)
			stop()
		}
	})
}

// A file that was cut at any byte gives the tools whose lines are whole.
func TestCutFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	now := time.Now()
	for i := range 4 {
		call(s, "a", fmt.Sprint("query ", i), fmt.Sprint("x:", i), now)
		fail(s, "b", fmt.Sprint("query é ", i), fmt.Sprint("x:", i), now)
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	all := s.Tools()
	for n := range data {
		if err := os.WriteFile(s.path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.WarnLevel)
		cut, err := Open(dir, []string{"config"}, zap.New(core))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		whole := max(bytes.Count(data[:n+1], []byte("\n"))-1, 0) // a line may lack its end
		if tools := cut.Tools(); len(tools) != whole || whole > 0 && !reflect.DeepEqual(tools, all[:whole]) {
			t.Fatalf("cut at %d: %d tools, want %d", n, len(tools), whole)
		}
		atLineEnd := n > 0 && (data[n-1] == '\n' || data[n] == '\n')
		if atLineEnd == (logs.Len() > 0) {
			t.Fatalf("cut at %d: %d warnings", n, logs.Len())
		}
	}
}

func TestDamagedFile(t *testing.T) {
	const good = `{"usage":1}` + "\n"
	for name, text := range map[string]string{
		"not JSON":      "hello",
		"version":       `{"usage":2}` + "\n" + `{"tool":"x:y","queries":[{"words":["a"],"marks":[{"who":1,"at":1}]}]}`,
		"line":          good + "{]\n",
		"wrong type":    good + `{"tool":1}` + "\n",
		"number":        good + `{"tool":"x:y","queries":[{"words":["a"],"marks":[{"who":-1}]}]}`,
		"far too large": good + strings.Repeat("x", 2*maxBytes),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.WarnLevel)
			s, err := Open(dir, []string{"config"}, zap.New(core))
			if err != nil || len(s.Tools()) != 0 || logs.Len() != 1 {
				t.Fatalf("%v, %v, %d warnings", s.Tools(), err, logs.Len())
			}
			call(s, "a", "send mail", "x:y", time.Now())
			if err := s.save(); err != nil {
				t.Fatal(err)
			}
			want(t, open(t, dir), "send mail", "x:y", time.Now(), 0.3)
			if logs.Len() != 1 {
				t.Errorf("%d warnings of the same", logs.Len())
			}
		})
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.MkdirAll(s.path, 0o700); err != nil { // a folder is in the way
		t.Fatal(err)
	}
	if _, err := Open(dir, []string{"config"}, zap.NewNop()); err == nil {
		t.Error("no error")
	}
	call(s, "a", "send mail", "x:y", time.Now())
	if s.save() == nil || s.Clear() == nil {
		t.Error("no error")
	}
}

// FuzzFile reads any file: nothing in it breaks a bound, and what is saved of it
// is read as the same.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"usage":1,"cleared":5}` + "\n" + `{"tool":"x:y","calls":-3,"failures":9,"queries":[{"words":["a","a","b"],"marks":[{"who":1,"at":99999999999999999,"base":-1e30,"vote":-128},{"who":1,"at":-5,"vote":1}]}]}` + "\n"))
	f.Add([]byte(`{"usage":1}` + "\n" + `{"tool":"x:y","queries":[{"words":["a"],"marks":[{"who":2,"at":99999999999999999,"base":1e30,"vote":127}]}]}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		now := time.Now()
		load := func(data []byte) *Store {
			s := inMemory(t)
			h, lines, _ := decode(data)
			s.memory.forget(min(h.Cleared, now.UnixMilli()))
			for _, l := range lines {
				s.memory.absorb(l, now.UnixMilli())
			}
			return s
		}
		save := func(s *Store) []byte {
			data, err := encode(head{version, s.memory.cleared}, ranked(s.memory.lines(), now.UnixMilli()))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		s := load(data)
		for _, tool := range s.memory.tools {
			if len(tool.uses) == 0 || len(tool.uses) > maxQueries || tool.failures > tool.calls || tool.failures < 0 {
				t.Errorf("%+v", tool)
			}
			for _, u := range tool.uses {
				for _, m := range u.marks {
					if m != m.bounded(now.UnixMilli()) || m.At <= s.memory.cleared {
						t.Errorf("mark %+v", m)
					}
				}
				if e := s.Match(u.query.texts, now)[tool.name]; !(e >= -0.3 && e <= 1) {
					t.Errorf("evidence %v", e)
				}
			}
		}
		saved := save(s)
		if again := save(load(saved)); !bytes.Equal(again, saved) {
			t.Errorf("saved %s\nthen %s", saved, again)
		}
	})
}
