package logfile

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRotation(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "log")
	content := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(folder, name))
		return string(b)
	}
	r := File{Path: file, MaxSize: 5, MaxFiles: 3}
	write := func(s string) {
		t.Helper()
		expect.OK(t, r.Append(t.Context(), []byte(s)))
	}
	kept := func() (all []string) {
		for _, name := range Old(file) {
			all = append(all, content(filepath.Base(name)))
		}
		return append(all, content("log"))
	}
	os.WriteFile(file+".backup", []byte("not ours"), 0o600)
	for _, s := range []string{"one 456789", "two\n", "three\n", "four\n", "this is longer than a file\n", "six\n"} {
		write(s)
	}
	expect.List(t, kept(), []string{"four\n", "this is longer than a file\n", "six\n"})

	// Another program may move it away.
	if runtime.GOOS != "windows" {
		os.Rename(file, filepath.Join(folder, "moved"))
		write("new\n")
		if content("moved") != "six\n" || content("log") != "new\n" {
			t.Errorf("moved %q, log %q", content("moved"), content("log"))
		}
		os.RemoveAll(file)
		os.Mkdir(file, 0o700)
		if err := r.Append(t.Context(), []byte("x")); err == nil {
			t.Error("a folder was written to")
		}
		os.Remove(file)
		write("again\n")
		expect.Equal(t, content("log"), "again\n", "log")
	}

	// Numbered files may be of the program that moves it, which has others for the newest ones.
	os.Remove(file)
	r.MaxFiles = 1
	write("5\n")
	if got := kept(); len(got) != 3 {
		t.Errorf("got %q", got)
	}
	write("alone 78910")
	write("next\n")
	if got := kept(); !slices.Equal(got, []string{"next\n"}) || content("log.backup") != "not ours" {
		t.Errorf("got %q", got)
	}
}

// Each item is written or counted as lost, also one that comes while the queue is closed.
func TestQueueCounts(t *testing.T) {
	const writers, each = 4, 20
	for range 3000 {
		var written atomic.Int64
		q := NewQueue(3, func(items []int) { written.Add(int64(len(items))) })
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for n := range each {
					q.Put(n)
				}
			})
		}
		expect.OK(t, q.Close(t.Context()))
		all.Wait()
		if got := written.Load() + q.Lost.Load(); got != writers*each {
			t.Fatalf("%d items are written or lost, not %d", got, writers*each)
		}
	}
}
