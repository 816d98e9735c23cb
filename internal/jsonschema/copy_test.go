package jsonschema_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const original = "github.com/santhosh-tekuri/jsonschema/v6"

var update = flag.Bool("update", false, "Write the copy of the version in go.mod.")

// changes are what differs from the original: each replaces a text that a file has once.
var changes = []struct{ file, before, after string }{
	{"draft.go", `import (
	"fmt"
	"slices"
	"strings"
)`, `import (
	"fmt"
	"slices"
	"strings"
	"sync"
)`},
	{"draft.go", `func init() {
	c := NewCompiler()`, `// compileDrafts compiles the schemas of all drafts when the first compiler is made. Changed in
// this copy: the original does so in init.
var compileDrafts = sync.OnceFunc(func() {
	c := newCompiler()`},
	{"draft.go", `+ "meta/" + name)
		}
	}
}`, `+ "meta/" + name)
		}
	}
})`},
	{"compiler.go", `func NewCompiler() *Compiler {
`, `func NewCompiler() *Compiler {
	compileDrafts()
	return newCompiler()
}

// newCompiler is the original's NewCompiler. Changed in this copy.
func newCompiler() *Compiler {
`},
}

// TestCopy checks that the copy is the original with the changes.
func TestCopy(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", original).Output()
	if err != nil {
		t.Fatal(err)
	}
	from := strings.TrimSpace(string(out))
	var files []string
	for _, pattern := range []string{"LICENSE", "*.go", "kind/*.go", "metaschemas/*/*", "metaschemas/*/*/*", "metaschemas/*/*/meta/*"} {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	made := 0
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() || strings.HasSuffix(file, "_test.go") {
			continue
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			t.Fatal(err)
		}
		text, n := changed(t, file, filepath.ToSlash(name))
		made += n
		if *update {
			if err := write(name, text); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not the original with the changes (%v); go test ./internal/jsonschema -update writes it", name, err)
		}
	}
	if made != len(changes) {
		t.Errorf("%d of %d changes are in the files", made, len(changes))
	}
}

// changed returns the text of an original file with our changes, and how many these are.
func changed(t *testing.T, file, name string) (text []byte, n int) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(`"`+original+`/kind"`), []byte(`"github.com/mcp-metarouter/metarouter/internal/jsonschema/kind"`))
	text = bytes.ReplaceAll(text, []byte(`"`+original+`"`), []byte(`"github.com/mcp-metarouter/metarouter/internal/jsonschema"`))
	for _, c := range changes {
		if c.file != name {
			continue
		}
		if bytes.Count(text, []byte(c.before)) != 1 {
			t.Errorf("%s does not have once: %s", name, c.before)
		}
		text = bytes.Replace(text, []byte(c.before), []byte(c.after), 1)
		n++
	}
	return text, n
}

func write(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
