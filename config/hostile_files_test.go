//go:build !race

package config

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

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
	"keys near to a root":       `{` + repeat(1000, func(i int) string { return fmt.Sprintf(`"server%c%c":{},`, 'a'+i%26, 'a'+i/26%26) }) + repeat(190_000, func(i int) string { return fmt.Sprintf(`"_%d":0,`, i) }) + `"mcpServers":{}}`,
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
	"patterns": `{"metarouter":{"classification":{"rules":[` + repeat(3000, func(int) string { return `{"model":"m","patterns":["` + strings.Repeat(`(?:\\pL{1000})`, 90) + `"]},` }) + `]}}}`,
	"profiles": `{"metarouter":{"profiles":{` + repeat(60_000, func(i int) string { return fmt.Sprintf(`"p%d":{"comand":1},`, i) }) + `}}}`,
	"patterns of servers": `{"mcpServers":{` + repeat(maxServers, func(i int) string { return fmt.Sprintf(`"%0250d":{"command":"x"},`, i) }) + `},"metarouter":{"profiles":{` +
		repeat(100, func(i int) string {
			return fmt.Sprintf(`"p%d":{"servers":[%s""]},`, i, strings.Repeat(`"`+strings.Repeat("*0", 10)+`x",`, 990))
		}) + `}}}`,
	"issuers": `{"metarouter":{"profiles":{` + repeat(256, func(i int) string { return fmt.Sprintf(`"%032d":{},`, i) }) + `},"http":{"oauth":{"issuers":[` + repeat(20, func(i int) string {
		return fmt.Sprintf(`{"url":"https://%d.example","profiles":{%s}},`, i, repeat(1000, func(i int) string { return fmt.Sprintf(`"%s=%d":"%032d",`, strings.Repeat("c", 150), i, i+100_000) }))
	}) + `]}}}}`,
	"claims":         `{"metarouter":{"http":{"oauth":{"issuers":[{"url":"https://a.example","profiles":{` + repeat(150_000, func(i int) string { return fmt.Sprintf(`"g=%d":"p",`, i) }) + `}}]}}}}`,
	"certificates":   `{"metarouter":{"http":{"certificates":{` + repeat(1000, func(i int) string { return fmt.Sprintf(`"CN=%d%s":"gone",`, i, strings.Repeat(",O=a", 60)) }) + `}}}}`,
	"a syntax error": strings.Repeat("\n", 4_000_000) + `{`,
}

// Each of the files is read in a moment, with memory in proportion to the largest file, and
// with few words about its mistakes.
func TestHostileFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".mcp.json")
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "unknown keys" && name != "keys near to a root" {
				t.Skip("large files")
			}
			write(t, path, text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := inTime(t, func() (Config, error) { return LoadText(path) })
			runtime.ReadMemStats(&after)
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 400 {
				t.Errorf("%d bytes of text took %d MiB", len(text), mib)
			}
			if said := fmt.Sprint(err, c.Problems); len(said) > 200_000 || len(c.Problems) > maxProblems+maxWarnings+2 {
				t.Errorf("%d problems, %d bytes: %.300s", len(c.Problems), len(said), said)
			}
			if strings.Contains(text, "${") || strings.Contains(text, "env") {
				c, _ = inTime(t, func() (Config, error) { return c.Expand() })
			}
			for _, s := range c.Servers {
				if len(s.Misconfigured) > 200_000 {
					t.Errorf("%d bytes say why a server can't be started", len(s.Misconfigured))
				}
			}
		})
	}
}
