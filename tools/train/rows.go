package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/index"
)

// A row is a tool, or something like a tool, and what people say when they need it.
type row struct {
	fields  [vectorFields][]string // its words
	server  string
	source  string     // the name of its source or file
	queries [][]string // words of tasks; none: the row has only a name and a description
	title   []string
}

// A positive is a tool as the files have it.
type positive struct {
	Name        string
	Description string
	Server      string
	Params      []string
	Title       string
}

// readRows reads the files with pairs to learn from that dir has: gzipped JSON lines, either
// {"source", "query", "positive": {…}} or {"source", "name", "description", …}. The
// source of a row is "file/source" if that has a tuning of its own, else its file. Rows with the same
// positive become one.
func readRows(dir string, t tuning) ([]row, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil || dir != "" && len(paths) == 0 {
		return nil, fmt.Errorf("-train %s: no file in it is named *.jsonl.gz", dir)
	}
	parts, errs := make([][]row, len(paths)), make([]error, len(paths))
	var group sync.WaitGroup
	for i, path := range paths {
		group.Go(func() { parts[i], errs[i] = readFile(path, t) })
	}
	group.Wait()
	var all []row
	for i, part := range parts {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", paths[i], errs[i])
		}
		all = append(all, part...)
	}
	return all, nil
}

func readFile(path string, t tuning) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	file := strings.TrimSuffix(filepath.Base(path), ".jsonl.gz")
	words := make(splitter)
	var rows []row
	known := make(map[string]int) // by positive
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	bound := t.Sources[file].Most * t.Base.Epochs // rows of a source that is drawn from by row
	for lines.Scan() && (bound == 0 || len(rows) < bound) {
		var line struct {
			Source   string
			Query    string
			Positive *positive
			positive
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		p := line.Positive
		if p == nil {
			p = &line.positive
		}
		key := strings.Join([]string{line.Source, p.Server, p.Name, p.Description}, "\n")
		i, ok := known[key]
		if !ok {
			i = len(rows)
			known[key] = i
			name := file + "/" + line.Source
			if _, ok := t.Sources[name]; !ok {
				name = file
			}
			rows = append(rows, words.row(p, name))
		}
		if line.Query != "" {
			rows[i].queries = append(rows[i].queries, words.of(line.Query))
		}
	}
	return rows, lines.Err()
}

// A splitter splits texts into words as package index does, and remembers the words of each
// part of a text that stands between spaces.
type splitter map[string][]string

func (s splitter) of(text string) (all []string) {
	for _, part := range strings.FieldsFunc(text, unicode.IsSpace) {
		words, ok := s[part]
		if !ok {
			const first = "qqq" // a text with this word keeps no stop words
			words = analysis.Words(first + " " + part)[1:]
			s[strings.Clone(part)] = words
		}
		all = append(all, words...)
	}
	if len(all) == 0 {
		return analysis.Words(text)
	}
	return all
}

func (s splitter) row(p *positive, source string) row {
	r := row{source: source, server: p.Server, title: s.of(p.Title)}
	r.fields[index.NameField] = s.of(p.Name)
	r.fields[index.DescriptionField] = append(analysis.Joined(p.Description), s.of(p.Description)...)
	for _, param := range p.Params {
		r.fields[index.ParameterField] = append(r.fields[index.ParameterField], s.of(param)...)
	}
	if p.Server != p.Name {
		r.fields[index.ServerField] = s.of(p.Server)
	}
	return r
}

// ofMCP reports whether the row is a tool or server that a registry of MCP servers lists.
func (r *row) ofMCP() bool { return r.source == "names-mcp" || r.source == "tasks-apis/mcpm" }
