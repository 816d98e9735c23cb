//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The lines of docs/gateway.md do what it says. They run
// against a router that was started by its line, but for its port.
func TestReadmeLines(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil && !layer.Strict() {
		t.Skip("there is no curl")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	expect.OK(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "gateway.md"))
	expect.OK(t, err)
	const address = "127.0.0.1:8787"
	var lines []string // with their continuations
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		block := regexp.MustCompile(`(\\|\|)\n\s+`).ReplaceAllString(block[1], "$1\n")
		lines = append(lines, regexp.MustCompile(`(?m)^(curl|printf|metarouter)(.*[\\|]\n)*.*$`).FindAllString(block, -1)...)
	}
	var serve string
	wants := []string{ // of the others, in their order
		`"value":3.1068559611866697`, `"value":3.1068559611866697`, `"categories":["math","science","technology","history","general"]`, `"servers":`,
		`[\"math\",\"science\",\"technology\",\"history\",\"general\"]`, `\"category\":\"history\"`,
		`[\"math\",\"science\",\"technology\",\"history\",\"general\"]`, `\"category\":\"math\"`, `\"category\":\"science\"`,
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "metarouter serve --http "+address) {
			serve, lines = line, append(lines[:i], lines[i+1:]...)
			break
		}
	}
	if serve == "" || len(lines) != len(wants) {
		t.Fatalf("it has %d lines, and %q; want %d lines:\n%s", len(lines), serve, len(wants), strings.Join(lines, "\n"))
	}
	var flags []string
	for _, flag := range strings.Fields(strings.TrimPrefix(serve, "metarouter serve --http "+address)) {
		if !strings.HasPrefix(flag, "-") {
			flag = filepath.Join(root, flag)
		}
		flags = append(flags, flag)
	}
	kept := t.TempDir() // so that one of the routers makes the vectors of the example file
	flags = append(flags, "--data", filepath.Join(kept, "metarouter"))
	url, _ := (&setup{t: t, dir: t.TempDir(), config: filepath.Join(root, ".mcp.json.example")}).serveHTTP(flags...)
	actual := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	for i, line := range lines {
		command := exec.Command("sh", "-c", strings.ReplaceAll(line, address, actual))
		command.Dir = root
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(metarouter)+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+kept)
		out, err := command.Output()
		if err != nil || !strings.Contains(string(out), wants[i]) {
			t.Errorf("%s\nprints %s, %v\nwant %s", line, out, err, wants[i])
		}
	}
}
