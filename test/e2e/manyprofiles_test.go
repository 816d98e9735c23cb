//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// BenchmarkManyProfiles measures a router over HTTP with 20 servers of 100 tools and 50 profiles in
// direct mode: the time of find_tools for a client without a profile and for clients with, and the
// resident memory before and after a client of each profile lists all its tools and searches. Only
// ratios mean anything.
//
//	go test -run '^$' -bench ManyProfiles -benchtime 200x ./test/e2e
func BenchmarkManyProfiles(b *testing.B) {
	const servers, tools, profiles = 20, 100, 50
	all, own := entries{}, map[string]any{}
	for i := range servers {
		all[fmt.Sprintf("s%02d", i)] = fake(manyTools(i, tools)...)
	}
	for i := range profiles { // each has all servers but one or two, and of each of them not all tools
		deny := []string{fmt.Sprintf("s%02d:*", i%servers), fmt.Sprintf("s%02d:*", i/3%servers), fmt.Sprintf("*_%02d", i)}
		own[fmt.Sprintf("p%02d", i)] = map[string]any{"tools": map[string]any{"deny": deny}, "mode": "direct"}
	}
	url, process := serveMany(b, all, map[string]any{"profiles": own, "listWait": "60s", "mode": "direct"})

	whole := listing(b, url, servers*tools, servers*tools)
	find(b, whole, 0)
	before := resident(b, process.Cmd.Process.Pid)
	began := time.Now()
	var limited []*mcptest.HTTPClient
	for i := range profiles {
		c := listing(b, fmt.Sprintf("%s/p/p%02d", url, i), (servers-2)*(tools-1), (servers-1)*(tools-1))
		find(b, c, i)
		limited = append(limited, c)
	}
	each, after := time.Since(began)/profiles, resident(b, process.Cmd.Process.Pid)
	for _, way := range []struct {
		name    string
		clients []*mcptest.HTTPClient // which search in turn
	}{{"none", []*mcptest.HTTPClient{whole}}, {"one", limited[:1]}, {"fifty", limited}} {
		b.Run("profile="+way.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				find(b, way.clients[i%len(way.clients)], i)
			}
			if len(way.clients) == profiles {
				b.ReportMetric(float64(before)/1024, "MB-with-one-client")
				b.ReportMetric(float64(after)/1024, "MB-with-all")
				b.ReportMetric(each.Seconds()*1000, "ms-of-first-list-and-search")
			}
		})
	}
}

// serveMany starts a router over HTTP.
func serveMany(b *testing.B, servers entries, own map[string]any) (url string, process *mcptest.Client) {
	b.Helper()
	dir := b.TempDir()
	config := filepath.Join(dir, "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": servers, "metarouter": own})
	if err == nil {
		err = writeFile(config, string(text))
	}
	if err != nil {
		b.Fatal(err)
	}
	address := mcptest.FreeAddress(b)
	process = mcptest.Start(b, metarouter, []string{"serve", "--http", address, "--config", config, "--data", dir}, dir, nil)
	mcptest.Listening(b, address)
	return "http://" + address + "/mcp", process
}

// listing returns a client that has listed its tools, as many as given.
func listing(b *testing.B, url string, atLeast, atMost int) *mcptest.HTTPClient {
	b.Helper()
	c := mcptest.NewHTTPClient(b, url)
	if _, err := c.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	if names, err := mcptest.ToolNames(b.Context(), c); err != nil || len(names) < atLeast || len(names) > atMost {
		b.Fatalf("%s: %d tools, want %d to %d, %v", url, len(names), atLeast, atMost, err)
	}
	return c
}

// find searches for the i-th task.
func find(b *testing.B, c *mcptest.HTTPClient, i int) {
	b.Helper()
	query := fmt.Sprintf("%s the %s of my %s with option%d", verbs[i%len(verbs)], nouns[i%len(nouns)], nouns[i*7%len(nouns)], i%397)
	answer, err := c.Call(b.Context(), "find_tools", map[string]any{"query": query})
	if err != nil || !bytes.Contains(answer, []byte("s1")) {
		b.Fatalf("find_tools %q: %s, %v", query, answer, err)
	}
}

var (
	verbs = strings.Fields("create delete list update search send read write open close merge export import convert plot")
	nouns = strings.Fields("invoice calendar ticket branch page file folder email message chart table column user account order payment weather map")
)

// manyTools returns the flags of a fake server with so many tools of common words.
func manyTools(server, tools int) (flags []string) {
	for i := range tools {
		n := server*tools + i
		verb, noun, other := verbs[n%len(verbs)], nouns[n/7%len(nouns)], nouns[n/3%len(nouns)]
		flags = append(flags, "-tool", fmt.Sprintf("%s_%s_%02d: Use this tool to %s a %s of the %s with option%d", verb, noun, i, verb, noun, other, n%397))
	}
	return flags
}
