//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A job is a person's task with everything that a model writes to do it.
type job struct {
	name    string // in the table
	task    string
	calls   int               // of servers' tools, in all
	files   map[string]string // of the job's folder, by name
	tools   map[string]string // a query of find_tools for each tool, by its id
	play    func(p *player) string
	scripts []string // in code mode instead of play; the last one returns the answer
	want    string   // the answer
}

// A player is a model that does a job, and its client.
//
// A turn is what the model writes at once: calls that do not depend on each other. Each turn reads the whole context: the
// definitions of the tools, the instructions, the task, and everything that was written and answered before. The last
// turn writes the answer. The texts of results count, their structured content and _meta don't.
type player struct {
	t    *T
	c    *mcptest.Client
	mode string
	dir  string

	context, read, written int // bytes: in the context, read in all turns, written by the model
	turns                  int
	took                   time.Duration // of the client's requests
}

// A toolCall is one of a server's tools, or with server "" one of the router's.
type toolCall struct {
	server, tool string
	arguments    any
}

// at makes a call of the filesystem server.
func at(tool string, arguments map[string]any) toolCall {
	return toolCall{"filesystem", tool, arguments}
}

// turn makes calls at once and returns the texts of their results.
func (p *player) turn(calls ...toolCall) []string {
	p.t.Helper()
	p.turns++
	p.read += p.context
	texts := make([]string, len(calls))
	var group errgroup.Group
	begun := time.Now()
	for i, c := range calls {
		name, arguments := c.tool, c.arguments
		switch {
		case c.server == "":
		case p.mode == "search":
			name, arguments = "call_tool", map[string]any{"tool": c.server + ":" + c.tool, "arguments": arguments}
		default:
			name = c.server + "__" + name
		}
		written := len(name) + len(encoded(p.t, arguments))
		p.written, p.context = p.written+written, p.context+written
		group.Go(func() error {
			raw, err := p.c.Call(p.t.Context(), name, arguments)
			var r struct {
				Content []struct{ Text string }
				IsError bool
			}
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			for _, block := range r.Content {
				texts[i] += block.Text
			}
			if err != nil || r.IsError {
				return fmt.Errorf("%s: %v %s", name, err, texts[i])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		p.t.Fatal(err)
	}
	p.took += time.Since(begun)
	for _, text := range texts {
		p.context += len(text)
	}
	return texts
}

// find asks find_tools for the tools of a job at once, and describe_tools for those whose arguments it does not show.
func (p *player) find(j job) {
	p.t.Helper()
	var finds []toolCall
	var missing []string
	for _, query := range j.tools {
		finds = append(finds, toolCall{"", "find_tools", map[string]any{"query": query}})
	}
	found := p.turn(finds...)
	for id := range j.tools {
		if !slices.ContainsFunc(found, func(text string) bool { return shows(text, id) }) {
			missing = append(missing, id)
		}
	}
	if missing != nil {
		p.turn(toolCall{"", "describe_tools", map[string]any{"ids": missing}})
	}
}

// shows reports whether an answer of find_tools has the types of all arguments of a tool.
func shows(answer, id string) bool {
	var found struct {
		Tools []struct {
			ID, Signature, Declaration string
			InputSchema                json.RawMessage `json:"input_schema"`
		}
	}
	if json.Unmarshal([]byte(answer), &found) != nil {
		return false
	}
	for _, tool := range found.Tools {
		arguments, _, _ := strings.Cut(tool.Signature, "→")
		if tool.Declaration != "" {
			arguments, _, _ = strings.Cut(tool.Declaration, "): Promise")
		}
		if tool.ID == id {
			return tool.InputSchema != nil || arguments != "" && !strings.Contains(arguments, "Record<string, any>")
		}
	}
	return false
}

// do does a job, and returns the answer.
func (p *player) do(j job, listed int) (answer string) {
	p.t.Helper()
	p.context = listed + len(j.task)
	if p.mode != "direct" {
		p.find(j)
	}
	if p.mode != "code" {
		answer = j.play(p)
	} else {
		places := strings.NewReplacer("DIR", p.dir, "RUN", filepath.Base(filepath.Dir(p.dir)))
		for _, script := range j.scripts {
			answer = p.turn(toolCall{"", "run_script", map[string]any{"code": places.Replace(script)}})[0]
		}
	}
	p.turns++
	p.read, p.written = p.read+p.context, p.written+len(answer)
	return answer
}

// A price is the cost of a job.
type price struct {
	listed, once, in, out, turns int // tokens, but for the turns
	took                         []time.Duration
}

// perform does the jobs some times in a mode, with a router of its own, and returns the costs.
func perform(t *T, program, mode, root string, servers entries, jobs []job, times int) []price {
	t.Helper()
	prices := make([]price, len(jobs))
	t.Run(mode, func(t *T) {
		home := t.TempDir()
		file := writeServers(t, home, servers, map[string]any{"metarouter": map[string]any{"listWait": "60s"}})
		c := mcptest.Start(t, program, []string{"serve", "--mode", mode, "--config", file, "--data", filepath.Join(home, "data")}, home, environmentIn(home))
		greeting, err := c.Initialize(t.Context())
		if err != nil {
			t.Fatalf("initialize: %v\n%s", err, c.Stderr())
		}
		var first struct{ Instructions string }
		definitions, err := mcptest.Tools(t.Context(), c)
		if err != nil || json.Unmarshal(greeting, &first) != nil {
			t.Fatalf("tools/list: %v\n%s", err, c.Stderr())
		}
		listed := len(first.Instructions)
		for _, definition := range definitions {
			listed += len(definition)
		}
		for at, j := range jobs { // each server has been called, and QuickJS is ready
			for i := range times {
				dir := filepath.Join(root, fmt.Sprintf("%s%02d", mode[:1], i), strings.ReplaceAll(j.name, " ", "-"))
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				for name, text := range j.files {
					if err := writeFile(filepath.Join(dir, name), text); err != nil {
						t.Fatal(err)
					}
				}
				p := &player{t: t, c: c, mode: mode, dir: dir}
				if answer := p.do(j, listed); answer != j.want {
					t.Errorf("%s: the answer is %q, want %q", j.name, answer, j.want)
				}
				prices[at] = price{listed / content.TokenBytes, p.context / content.TokenBytes, p.read / content.TokenBytes, p.written / content.TokenBytes, p.turns, append(prices[at].took, p.took)}
			}
		}
		t.Logf("%s: the list of tools and the instructions cost %d tokens", mode, listed/content.TokenBytes)
	})
	return prices
}

// compareJobs does ten jobs with published servers, three times in each mode, and prints tables of the costs.
func compareJobs(t *T, _ options) {
	modes := []string{"direct", "search", "code"}
	root, program := t.TempDir(), built(t, "cmd/metarouter")
	servers := entries{}
	for _, s := range external.RealServers(t, root) {
		if !s.Fails && !s.Modern {
			servers[s.Name] = map[string]any{"command": s.Command, "args": s.Args, "env": s.Env}
		}
	}
	prices := map[string][]price{}
	for _, mode := range modes {
		prices[mode] = perform(t, program, mode, root, servers, slices.Concat(shortJobs, longJobs), 3)
		if t.failed {
			t.Fatal("no table: a job has failed")
		}
	}
	table := "\n| job | calls | tokens in: direct | search | code | out: direct | search | code | turns: direct | search | code | s: direct | search | code | once: direct | search | code | direct reads less if its list has less |\n|---" + strings.Repeat("|---", 17) + "|\n"
	for i, j := range slices.Concat(shortJobs, longJobs) {
		table += fmt.Sprintf("| %s | %d", j.name, j.calls)
		for _, cell := range []func(price) string{
			func(p price) string { return fmt.Sprint(p.in) },
			func(p price) string { return fmt.Sprint(p.out) },
			func(p price) string { return fmt.Sprint(p.turns) },
			func(p price) string { return fmt.Sprintf("%.3f", slices.Sorted(slices.Values(p.took))[1].Seconds()) },
			func(p price) string { return fmt.Sprint(p.once) },
		} {
			for _, mode := range modes {
				table += " | " + cell(prices[mode][i])
			}
		}
		direct, code := prices["direct"][i], prices["code"][i]
		table += fmt.Sprintf(" | %d |\n", (code.in-direct.in)/direct.turns+direct.listed)
	}
	fmt.Print(table)
}
