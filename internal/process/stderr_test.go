package process

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// What is read of stderr goes into errors, which clients, logs and terminals show.
func TestTailIsPlain(t *testing.T) {
	launch := secret.Launch{Env: map[string]string{"API_TOKEN": "/s3cret"}, Args: []string{"--key", "hunter3"}}
	words := NewTail(launch.Concealer())
	data := t.TempDir()
	words.Copy(strings.NewReader("token /s3cret\n"), NewLogFile(data, "s"))
	if log, err := os.ReadFile(filepath.Join(data, "logs", "s.log")); err != nil || string(log) != "token ${API_TOKEN}\n" {
		t.Errorf("log %q, %v", log, err)
	}
	words = NewTail(launch.Concealer())
	words.Copy(strings.NewReader("\x1b[31mbad\x1b[0m token /s3\x1b[1mcret\x1b[0m\n\x1b]52;c;aGk=\x07key hunter3\ta\u202eb\n"), NewLogFile("", "s"))
	expect.Equal(t, words.Reason(), "; its last lines on stderr: bad token ${API_TOKEN} | key … ab")
}

// The file gets each line before the next one is complete.
func TestCopyWaitsForNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		data := t.TempDir()
		go NewTail(strings.Clone).Copy(r, NewLogFile(data, "s"))
		io.WriteString(w, "one\ntwo\nthr")
		synctest.Wait()
		if log, err := os.ReadFile(filepath.Join(data, "logs", "s.log")); err != nil || string(log) != "one\ntwo\n" {
			t.Errorf("log %q, %v", log, err)
		}
		w.Close()
		synctest.Wait() // the end of Copy
	})
}

// What a process printed long before it was killed is not the reason.
func TestTailRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := NewTail(strings.Clone)
		words.Copy(strings.NewReader("failed to request roots\n"), NewLogFile("", "s"))
		time.Sleep(11 * time.Second)
		if why, lines := words.Recent(); why != "" || len(lines) != 0 {
			t.Errorf("%q, %q", why, lines)
		}
		words.Copy(strings.NewReader("out of memory\n"), NewLogFile("", "s"))
		if why, lines := words.Recent(); why != "; its last lines on stderr: out of memory" || len(lines) != 1 || len(words.Last(5)) != 2 {
			t.Errorf("%q, %q", why, lines)
		}
	})
}

// A flood is read slowly, and all of it: the process waits.
func TestFloodIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines, bytes = 50_000, 100
		began, data := time.Now(), t.TempDir()
		NewTail(strings.Clone).Copy(strings.NewReader(strings.Repeat(strings.Repeat("x", bytes-1)+"\n", lines)), NewLogFile(data, "s"))
		if took, least := time.Since(began), time.Second*lines*bytes/stderrRate-time.Second; took < least {
			t.Errorf("read in %v, at least %v is due", took, least)
		}
	})
}
