package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What one search may cost. Whichever ends it, the answer says so.
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

func (f files) searchFiles(ctx context.Context, _ *mcp.CallToolRequest, a searchArgs) (*mcp.CallToolResult, searchResult, error) {
	result, err := f.search(ctx, a)
	if err != nil {
		return nil, searchResult{}, fmt.Errorf("search files: %w", err)
	}
	return nil, result, nil
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

func (f files) search(ctx context.Context, a searchArgs) (searchResult, error) {
	name, err := local(a.Path)
	if err != nil {
		return searchResult{}, err
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
	text := regexp.MustCompile(flags + regexp.QuoteMeta(a.Text))

	ctx, cancel := context.WithTimeout(ctx, maxSearchTime)
	defer cancel()
	result := searchResult{Matches: []match{}}
	start := filepath.ToSlash(name)
	var visited, skipped int
	enough := func(why string) error {
		result.Truncated, result.Note = true, why
		return errEnough
	}
	err = fs.WalkDir(f.root.FS(), start, func(p string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case ctx.Err() != nil:
			return enough(fmt.Sprintf("stopped after %v", maxSearchTime))
		case visited > maxSearchEntries:
			return enough(fmt.Sprintf("stopped after %d files and directories; search a narrower path", maxSearchEntries))
		case err != nil && p == start:
			return err
		case err != nil:
			skipped++
			return nil
		case d.IsDir() && p != start && (d.Name() == ".git" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !matchName(a.Name, start, p):
			return nil
		case a.Text == "":
			result.Matches = append(result.Matches, match{Path: p})
		default:
			lines, ok := f.grep(p, text, a.MaxResults+1-len(result.Matches))
			if !ok {
				skipped++
			}
			result.Matches = append(result.Matches, lines...)
		}
		if len(result.Matches) > a.MaxResults {
			result.Matches = result.Matches[:a.MaxResults]
			return enough(fmt.Sprintf("more than %d matches", a.MaxResults))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return searchResult{}, err
	}
	if skipped > 0 {
		result.Note = strings.TrimPrefix(fmt.Sprintf("%s; %d not searched (binary, over 4 MiB or unreadable)", result.Note, skipped), "; ")
	}
	return result, nil
}

// grep returns the first lines of a file that match; ok is false if it cannot
// be searched.
func (f files) grep(name string, text *regexp.Regexp, limit int) (lines []match, ok bool) {
	file, err := f.open(name)
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

// excerpt is the line, or the part of it around a byte.
func excerpt(line []byte, at int) string {
	if len(line) > maxLineBytes {
		begin := min(max(0, at-maxLineBytes/3), len(line)-maxLineBytes)
		line = line[begin : begin+maxLineBytes]
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(line)), "")
}

// matchName reports whether the file at p fits the glob: its name if the glob
// has no slash, else its path from start on, where ** stands for any number of
// directories. An empty glob fits everything.
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

// matchPath matches element by element. Only the last ** met so far ever needs
// to take in more, as in any wildcard match with one kind of star.
func matchPath(glob, names []string) bool {
	star, taken := -1, 0 // the last ** and where what follows it was tried
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
