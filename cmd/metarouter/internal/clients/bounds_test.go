package clients

import (
	"fmt"
	"strings"
	"testing"
)

func series(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A client's file that would take quadratic time is refused, with the bound.
func TestBounds(t *testing.T) {
	for _, tt := range []struct{ client, path, text, want string }{
		{"goose", "f.yaml", series(20_000, "a%d: 1\n"), "f.yaml has more than 10000 keys"},
		{"goose", "f.yaml", "{" + series(20_000, "a%d, ") + "}", "f.yaml has more than 10000 keys"},
		{"goose", "f.yaml", "extensions:\n" + series(20_000, "  a%d:\n    cmd: x\n"), "f.yaml has more than 10000 keys"},
		{"goose", "f.yaml", series(250_000, "%%TAG !a%d! b\n") + "--- a", "f.yaml has more than 100 directives"},
		{"goose", "f.yaml", series(4_000, "a%d: 1\n"), ""},
		{"codex", "f.toml", series(11_000, "[mcp_servers.a%d]\ncommand = \"x\"\n"), "f.toml has more than 10000 keys"},
		{"codex", "f.toml", series(3_000, "[mcp_servers.a%d]\ncommand = \"x\"\n"), "f.toml has more than 2000 servers"},
		{"cursor", "f.json", `{"mcpServers": {` + series(20_000, `"a%d": {"command": "x"},`) + `"z": {}}}`, "f.json has more than 2000 servers"},
		{"cursor", "f.json", `{"mcpServers": {` + series(1_999, `"a%d": {"command": "x"},`) + `"z": {}}}`, ""},
	} {
		c, _ := Find(tt.client)
		s := Source{Path: tt.path, keys: c.keys, Data: []byte(tt.text)}
		_, errI := Import(c, []Source{s}, "/m.json", nil, Ours{}, KeepOurs)
		_, errO := Others(c, s, "/m.json", Ours{})
		for _, err := range []error{errI, errO} {
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.60q: %v, want %q", tt.text, err, tt.want)
			}
		}
	}
}
