package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of one search. The answer says which one ended it.
const (
	maxSearchEntries = 100_000
	maxSearchedFile  = 4 << 20 // bytes; larger files are not searched for text
	maxSearchTime    = 30 * time.Second
	maxLineBytes     = 300 // of a matching line in the answer
)

type searchArgs struct {
	Path          string `json:"path"`
	Name          string `json:"name"`
	Text          string `json:"text"`
	CaseSensitive bool   `json:"case_sensitive"`
	MaxResults    int    `json:"max_results"`
}

type searchResult struct {
	Matches   []match `json:"matches"`
	Truncated bool    `json:"truncated"`
	Note      string  `json:"note,omitempty"`
}

type match struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`
}

var searchFilesTool = readOnly("search_files", "Search files",
	"Find files below the root folder by name (glob) and search their contents for a text (grep); with both, only files of that name are searched. "+
		"Symbolic links, .git and node_modules are not entered; binary files and those over 4 MiB are not searched for text.",
	`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "default": ".", "description": "The file or directory to search, relative to the root folder."},
		"name": {"type": "string", "description": "A glob: \"*.go\" for names anywhere below path, or with slashes for paths relative to it, such as \"docs/**/*.md\"."},
		"text": {"type": "string", "description": "The text to find, literally, within one line."},
		"case_sensitive": {"type": "boolean", "default": false, "description": "Whether upper and lower case differ in text."},
		"max_results": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100, "description": "How many matches to return at most."}
	},
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"matches": {"type": "array", "items": {
			"type": "object",
			"properties": {
				"path": {"type": "string", "description": "Relative to the root folder."},
				"line": {"type": "integer", "description": "From 1; with text only."},
				"text": {"type": "string", "description": "The line, cut where it is long; with text only."}
			},
			"required": ["path"],
			"additionalProperties": false
		}},
		"truncated": {"type": "boolean", "description": "Whether there may be more matches."},
		"note": {"type": "string", "description": "Why it was truncated, and what was not searched."}
	},
	"required": ["matches", "truncated"],
	"additionalProperties": false
}`)

// folder is the root folder. The os.Root opens nothing outside of it, not even through ".." or
// symbolic links.
type folder struct{ root *os.Root }

func (f folder) searchFiles(ctx context.Context, _ *mcp.CallToolRequest, a searchArgs) (*mcp.CallToolResult, searchResult, error) {
	result, err := f.search(ctx, a)
	if err != nil {
		return nil, searchResult{}, fmt.Errorf("search files: %w", err)
	}
	return nil, result, nil
}

// errStopped ends a walk early.
var errStopped = errors.New("stopped")

// search checks the arguments and walks the files below the path.
func (f folder) search(ctx context.Context, a searchArgs) (searchResult, error) {
	start := path.Clean(filepath.ToSlash(a.Path)) // "" is "."
	if !fs.ValidPath(start) {
		return searchResult{}, fmt.Errorf("%q is outside the root folder; paths are relative to it, such as \"docs/readme.md\"", a.Path)
	}
	if a.Name == "" && a.Text == "" {
		return searchResult{}, errors.New("give name, text or both")
	}
	if _, err := path.Match(a.Name, ""); err != nil {
		return searchResult{}, fmt.Errorf("name %q: %w", a.Name, err)
	}
	flags := "(?i)"
	if a.CaseSensitive {
		flags = ""
	}
	ctx, cancel := context.WithTimeout(ctx, maxSearchTime)
	defer cancel()
	s := &search{
		folder: f, searchArgs: a, start: start, matches: []match{},
		pattern: regexp.MustCompile(flags + regexp.QuoteMeta(a.Text)),
	}
	err := fs.WalkDir(f.root.FS(), s.start, func(p string, d fs.DirEntry, err error) error { return s.visit(ctx, p, d, err) })
	if err != nil && !errors.Is(err, errStopped) {
		return searchResult{}, err
	}
	var notes []string
	if s.stopped != "" {
		notes = append(notes, s.stopped)
	}
	if s.skipped > 0 {
		notes = append(notes, fmt.Sprintf("%d not searched (binary, over 4 MiB or unreadable)", s.skipped))
	}
	return searchResult{s.matches, s.stopped != "", strings.Join(notes, "; ")}, nil
}

// A search is one walk through the files, with its results.
type search struct {
	folder
	searchArgs
	pattern *regexp.Regexp // for Text
	start   string

	visited int // files and directories
	skipped int // files and directories that cannot be searched
	matches []match
	stopped string // why the walk ended early, or ""
}

// visit is the [fs.WalkDirFunc] of the search.
func (s *search) visit(ctx context.Context, p string, d fs.DirEntry, err error) error {
	s.visited++
	switch {
	case ctx.Err() != nil:
		return s.stop("stopped after %v", maxSearchTime)
	case s.visited > maxSearchEntries:
		return s.stop("stopped after %d files and directories; search a narrower path", maxSearchEntries)
	case err != nil && p == s.start:
		return err
	case err != nil:
		s.skipped++
		return nil
	case d.IsDir() && p != s.start && (d.Name() == ".git" || d.Name() == "node_modules"):
		return fs.SkipDir
	case !d.Type().IsRegular() || !matchName(s.Name, s.start, p):
		return nil
	case s.Text == "":
		s.matches = append(s.matches, match{Path: p})
	default:
		lines, ok := s.grep(p, s.pattern, s.MaxResults+1-len(s.matches))
		if !ok {
			s.skipped++
		}
		s.matches = append(s.matches, lines...)
	}
	if len(s.matches) > s.MaxResults {
		s.matches = s.matches[:s.MaxResults]
		return s.stop("more than %d matches", s.MaxResults)
	}
	return nil
}

// stop ends the walk and notes why.
func (s *search) stop(format string, args ...any) error {
	s.stopped = fmt.Sprintf(format, args...)
	return errStopped
}

// grep returns the first lines of a file that match; ok is false if it cannot
// be searched.
func (f folder) grep(name string, text *regexp.Regexp, limit int) (lines []match, ok bool) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSearchedFile+1))
	if err != nil || len(data) > maxSearchedFile || bytes.IndexByte(data, 0) >= 0 {
		return nil, false
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if at := text.FindIndex(line); at != nil {
			lines = append(lines, match{name, number, excerpt(line, at[0])})
		}
		if len(lines) == limit {
			break
		}
	}
	return lines, true
}

// excerpt returns the line, or a part of it around a byte if it is long.
func excerpt(line []byte, at int) string {
	if len(line) > maxLineBytes {
		begin := min(max(0, at-maxLineBytes/3), len(line)-maxLineBytes)
		line = line[begin : begin+maxLineBytes]
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(line)), "")
}

// matchName reports whether the file at p matches the glob: with its name if the glob has no
// slash, otherwise with its path relative to start. ** matches any number of directories,
// and an empty glob everything.
func matchName(glob, start, p string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		return matchElement(glob, path.Base(p))
	}
	relative := p
	switch {
	case p == start:
		relative = path.Base(p)
	case start != ".":
		relative = strings.TrimPrefix(p, start+"/")
	}
	return matchPath(strings.Split(strings.TrimPrefix(glob, "./"), "/"), strings.Split(relative, "/"))
}

// matchPath matches element by element. If an element does not match, only the last ** so
// far needs to take more names.
func matchPath(glob, names []string) bool {
	star, taken := -1, 0 // the last **, and how many names it and those before have taken
	g, n := 0, 0
	for n < len(names) {
		switch {
		case g < len(glob) && glob[g] == "**":
			star, taken = g, n
			g++
		case g < len(glob) && matchElement(glob[g], names[n]):
			g++
			n++
		case star >= 0:
			taken++
			g, n = star+1, taken
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == "**" {
		g++
	}
	return g == len(glob)
}

func matchElement(glob, name string) bool {
	ok, _ := path.Match(glob, name) // search has refused bad patterns
	return ok
}
