package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// repeat returns n texts, each made from its number, one after the other.
func repeat(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(text(i))
	}
	return b.String()
}

// inTime fails the test if f takes quadratic time, which is minutes to hours.
func inTime(t *testing.T, f func() (Config, error)) (c Config, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it takes longer than a minute")
	}
	return c, err
}

// The first mistakes are reported, and how many more there are.
func TestManyProblems(t *testing.T) {
	c, err := readExpanded("/p/.mcp.json", []byte(`{"mcpServers": {`+repeat(250, func(i int) string { return fmt.Sprintf("\"s%d\": 1,\n", i) })+`}}`))
	if err != nil || len(c.Problems) != maxProblems+1 {
		t.Fatalf("%d problems, %v", len(c.Problems), err)
	}
	expect.Equal(t, c.Problems[maxProblems].Error(), "/p/.mcp.json: and 150 more problems; correct the others first")
	if got := c.Servers[249].Misconfigured; got == "" {
		t.Error("a server whose problem is not listed counts as right")
	}
}

func TestTooManyValues(t *testing.T) {
	_, err := readExpanded("/p/.mcp.json", []byte(`{"x": [`+strings.Repeat("0,", 200_000)+`]}`))
	expect.Error(t, err, "more than 200000 keys and values")
}

func TestTooManyServers(t *testing.T) {
	_, err := readExpanded("/p/.mcp.json", []byte(`{"mcpServers": {`+repeat(maxServers+1, func(i int) string { return fmt.Sprintf(`"s%d":{},`, i) })+`}}`))
	expect.Error(t, err, "more than 2000 servers")
}

// An untrusted text is read without a look at anything else: neither the environment nor an
// envFile, and paths stay as they are.
func TestLoadText(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mcp.json")
	t.Setenv("WISHED", "value-of-mine")
	write(t, filepath.Join(dir, ".env"), "FROM_FILE=content-of-mine")
	write(t, path, `{"mcpServers": {
		"a": {"command": "~/x", "args": ["${WISHED}"], "envFile": ".env", "env": {"K": "${WISHED}"}, "cwd": "sub"},
		"b": {"url": "${WISHED}", "headers": {"K": "${WISHED}"}}
	}, "metarouter": {"accessLog": "${WISHED}", "http": {"tokens": ["${WISHED}"], "tlsCert": "${WISHED}", "tlsKey": "k"},
		"classification": {"rules": [{"model": "m", "patterns": ["x"]}]}}}`)
	text, err := LoadText(path)
	expect.OK(t, err)
	if got := fmt.Sprintf("%+v %+v %+v", text.Servers, text.Problems, text.Router); strings.Contains(got, "mine") || len(text.Problems) > 0 {
		t.Errorf("an untrusted text became %s", got)
	}
	if s := text.Servers[0]; s.Command != "~/x" || s.EnvFile != ".env" || s.Cwd != "sub" || s.Args[0] != "${WISHED}" {
		t.Errorf("not as written: %+v", s)
	}
	full, err := Load(path)
	expect.OK(t, err)
	if got, _ := text.Expand(); !got.Equal(full) || got.Servers[0].Env["FROM_FILE"] != "content-of-mine" {
		t.Errorf("expanded, it is\n%+v\nwant\n%+v", got, full)
	}
}
