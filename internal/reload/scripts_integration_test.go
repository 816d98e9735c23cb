package reload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

const hello = "/* Says hello. */"

// withScripts makes a project with a script, and returns its configuration and the folder of the scripts.
func withScripts(t *testing.T, text string) (file, folder string) {
	t.Helper()
	dir := t.TempDir()
	file, folder = filepath.Join(dir, "mcp.json"), filepath.Join(dir, "scripts")
	expect.OK(t, os.Mkdir(folder, 0o700))
	write(t, file, text)
	write(t, filepath.Join(folder, "a.js"), hello)
	return file, folder
}

const named = `{"metarouter": {"scripts": {"folder": "scripts"}}}`

// expectScripts takes configurations until one has the code of all scripts.
func expectScripts(t *testing.T, out <-chan config.Config, want string) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		select {
		case c := <-out:
			got := ""
			for _, s := range c.Servers {
				for _, script := range s.Scripts {
					got += script.Name + " " + script.Code + "; "
				}
			}
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%s was not sent", want)
		}
	}
}

func TestWatchScripts(t *testing.T) {
	layer.Integration(t)
	file, folder := withScripts(t, named)
	w := watch(t, file)
	write(t, filepath.Join(folder, "a.js"), hello+"1")
	expectScripts(t, w.out, "a "+hello+"1; ")
	write(t, filepath.Join(folder, "b.js"), hello+"2")
	expectScripts(t, w.out, "a "+hello+"1; b "+hello+"2; ")
	expect.OK(t, os.Remove(filepath.Join(folder, "a.js")))
	expectScripts(t, w.out, "b "+hello+"2; ")
	expect.OK(t, os.RemoveAll(folder))
	expectScripts(t, w.out, "")
	expect.OK(t, os.Mkdir(folder, 0o700))
	write(t, filepath.Join(folder, "c.js"), hello)
	expectScripts(t, w.out, "c "+hello+"; ")
}

func TestWatchLinkedScript(t *testing.T) {
	layer.Integration(t)
	file, folder := withScripts(t, named)
	behind := filepath.Join(filepath.Dir(file), "behind.txt")
	write(t, behind, hello)
	symlink(t, filepath.Join("..", "behind.txt"), filepath.Join(folder, "b.js"))
	w := watch(t, file)
	rename(t, behind, hello+"1")
	expectScripts(t, w.out, "a "+hello+"; b "+hello+"1; ")
}

// The approval of a script's last edit is noticed, also if the folder is new.
func TestWatchWaitingScripts(t *testing.T) {
	layer.Integration(t)
	file, folder := withScripts(t, "{}")
	first, err := config.Load(file)
	expect.OK(t, err)
	data := t.TempDir()
	out, judged, done := make(chan config.Config), make(chan error, 99), make(chan error, 1)
	p := Pipeline{Watch: true, Trusted: func(c config.Config) error { return c.Text.Trusted(data) }, Judged: func(err error) { judged <- err }}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- p.Run(ctx, first, out) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	expect.OK(t, <-judged)
	write(t, file, named)
	for err := range judged { // the first ones may be about a file that is half written
		if _, waits := errors.AsType[*trustfile.Untrusted](err); waits {
			break
		}
	}
	write(t, filepath.Join(folder, "a.js"), hello+"1")
	text, err := config.LoadText(file)
	expect.OK(t, err)
	expect.OK(t, text.Text.Trust(data))
	expectScripts(t, out, "a "+hello+"1; ")
}
