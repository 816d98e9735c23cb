package config

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// repeat returns n texts, each made from its number, one after the other.
func repeat(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(text(i))
	}
	return b.String()
}

// hostile are files of up to 4 MiB that once took quadratic time or much memory.
var hostile = map[string]string{
	"too many servers":          `{"mcpServers": {` + repeat(maxServers+1, func(i int) string { return fmt.Sprintf(`"s%d":{},`, i) }) + `}}`,
	"servers":                   `{"mcpServers": {` + repeat(100_000, func(i int) string { return fmt.Sprintf(`"s%d":{"command":"x"},`, i) }) + `}}`,
	"as many servers as may be": `{"mcpServers": {` + repeat(maxServers, func(i int) string { return fmt.Sprintf(`"s%d":{"command":"x","args":["a","b"]},`, i) }) + `}}`,
	"the same server":           `{"mcpServers": {` + repeat(60_000, func(int) string { return `"s":{"comand":"x"},` }) + `}}`,
	"bare servers":              `{` + repeat(maxServers, func(i int) string { return fmt.Sprintf(`"s%d":{"command":1},`, i) }) + `}`,
	"wrong servers":             `{"mcpServers": {` + repeat(maxServers, func(i int) string { return fmt.Sprintf(`"s%d:":{"command":[],"url":1,"env":2},`, i) }) + `}}`,
	"keys":                      `{"mcpServers":{"a":{` + repeat(1_000_000, func(i int) string { return fmt.Sprintf(`"%x":0,`, i%4096) }) + `}}}`,
	"unknown keys":              `{"metarouter":{` + repeat(190_000, func(i int) string { return fmt.Sprintf(`"tmeout%05x":0,`, i) }) + `}}`,
	"misspelled keys":           `{"mcpServers":{"a":{` + repeat(190_000, func(i int) string { return fmt.Sprintf(`"comma%c%c":0,`, 'a'+i%26, 'a'+i/26%26) }) + `}}}`,
	"elements":                  `{"mcpServers":{"a":{"args":[` + repeat(190_000, func(int) string { return `"",` }) + `]}}}`,
	"variables":                 `{"mcpServers":{"a":{"env":{` + repeat(150_000, func(i int) string { return fmt.Sprintf(`"%d":"${V%d}",`, i, i) }) + `}}}}`,
	"open references":           `{"mcpServers":{"a":{"command":"` + strings.Repeat("${", 2_000_000) + `}"}}}`,
	"nested references":         `{"mcpServers":{"a":{"command":"` + strings.Repeat("${A:-", 600_000) + strings.Repeat("}", 600_000) + `"}}}`,
	"prompts":                   `{"mcpServers":{"a":{"command":"` + strings.Repeat("${input:", 400_000) + strings.Repeat("}", 400_000) + `"}}}`,
	"lines":                     `{"mcpServers":{` + repeat(maxServers, func(i int) string { return fmt.Sprintf("\"s%d\":1,%s", i, strings.Repeat("\n", 2000)) }) + `}}`,
	"a long name":               `{"mcpServers":{"` + strings.Repeat("n", 4_000_000) + `":{"command":1}}}`,
	"a long string":             `{"mcpServers":{"a":{"command":"` + strings.Repeat("c", 4_000_000) + `"}}}`,
	"a long key":                `{"mcpServers":{"a":{"command":{"` + strings.Repeat("k", 4_000_000) + `":1}, "env":{"` + "K" + `":[]}}}}`,
	"nesting":                   `{"mcpServers":` + strings.Repeat(`[`, 4_000_000),
	"nested objects":            `{"mcpServers":` + strings.Repeat(`{"a":`, 990) + `1` + strings.Repeat(`}`, 991),
	"comments":                  `{` + strings.Repeat("//\n", 1_000_000) + `}`,
	"shells in shells":          `{"mcpServers":{"a":{"command":"sh","args":["-c","` + strings.Repeat("sh -c ", 600_000) + `"]}}}`,
	"programs in wrappers":      `{"mcpServers":{"a":{"command":"env","args":[` + repeat(190_000, func(int) string { return `"env",` }) + `]}}}`,
	"categories": `{"metarouter":{"classification":{"categories":[` + repeat(30_000, func(i int) string { return fmt.Sprintf(`{"name":"c%d"},`, i) }) + `],"rules":[` +
		repeat(30_000, func(i int) string { return fmt.Sprintf(`{"categories":["d%d"],"model":"m"},`, i) }) + `]}}}`,
	"patterns":       `{"metarouter":{"classification":{"rules":[` + repeat(3000, func(int) string { return `{"model":"m","patterns":["` + strings.Repeat(`(?:\\pL{1000})`, 90) + `"]},` }) + `]}}}`,
	"a syntax error": strings.Repeat("\n", 4_000_000) + `{`,
}

// Each of the files is read in a moment, with memory in proportion to the largest file, and
// with few words about its mistakes.
func TestHostileFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("large files")
	}
	path := filepath.Join(t.TempDir(), ".mcp.json")
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			write(t, path, text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := inTime(t, func() (Config, error) { return LoadText(path) })
			runtime.ReadMemStats(&after)
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 400 {
				t.Errorf("%d bytes of text took %d MiB", len(text), mib)
			}
			if said := fmt.Sprint(err, c.Problems); len(said) > 200_000 || len(c.Problems) > maxProblems+1 {
				t.Errorf("%d problems, %d bytes: %.300s", len(c.Problems), len(said), said)
			}
			if strings.Contains(text, "${") || strings.Contains(text, "env") {
				c, _ = inTime(t, func() (Config, error) { return c.Expand(), nil })
			}
			for _, s := range c.Servers {
				if len(s.Misconfigured) > 200_000 {
					t.Errorf("%d bytes say why a server can't be started", len(s.Misconfigured))
				}
			}
		})
	}
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
	c, err := Read("/p/.mcp.json", []byte(`{"mcpServers": {`+repeat(250, func(i int) string { return fmt.Sprintf("\"s%d\": 1,\n", i) })+`}}`))
	if err != nil || len(c.Problems) != maxProblems+1 {
		t.Fatalf("%d problems, %v", len(c.Problems), err)
	}
	if got, want := c.Problems[maxProblems].Error(), "/p/.mcp.json: and 150 more problems; correct the others first"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.Servers[249].Misconfigured; got == "" {
		t.Error("a server whose problem is not listed counts as right")
	}
}

func TestTooManyValues(t *testing.T) {
	_, err := Read("/p/.mcp.json", []byte(`{"x": [`+strings.Repeat("0,", maxValues)+`]}`))
	if err == nil || !strings.Contains(err.Error(), "more than 200000 keys and values") {
		t.Error(err)
	}
}

func TestTooManyServers(t *testing.T) {
	_, err := Read("/p/.mcp.json", []byte(hostile["too many servers"]))
	if err == nil || !strings.Contains(err.Error(), "more than 2000 servers") {
		t.Error(err)
	}
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
		"assist": {"url": "${WISHED}", "model": "m"}, "classification": {"type": "mcp", "url": "${WISHED}", "rules": [{"model": "m", "patterns": ["("]}]}}}`)
	text, err := LoadText(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v %+v %+v", text.Servers, text.Problems, text.Router); strings.Contains(got, "mine") || len(text.Problems) > 0 {
		t.Errorf("an untrusted text became %s", got)
	}
	if s := text.Servers[0]; s.Command != "~/x" || s.EnvFile != ".env" || s.Cwd != "sub" || s.Args[0] != "${WISHED}" {
		t.Errorf("not as written: %+v", s)
	}
	full, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.Expand(); !got.Equal(full) || got.Servers[0].Env["FROM_FILE"] != "content-of-mine" {
		t.Errorf("expanded, it is\n%+v\nwant\n%+v", got, full)
	}
}

// A very long word is compared with many others in a moment.
func TestSimilarToLongWord(t *testing.T) {
	words := make([]string, 5000)
	for i := range words {
		words[i] = fmt.Sprint("program", i)
	}
	long := strings.Repeat("X", 4<<20)
	if n := testing.AllocsPerRun(1, func() { Similar(long, words) }); n > 10 {
		t.Errorf("a word of 4 MiB was copied: %v allocations", n)
	}
}
