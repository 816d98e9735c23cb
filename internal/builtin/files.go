package builtin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// files are the tools for one folder. The os.Root opens nothing outside of it, not even
// through ".." or symbolic links.
type files struct{ root *os.Root }

func newFiles(folder string) (*mcp.Server, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open root folder: %w", err)
	}
	f := files{root}
	s := newServer("files", "Files",
		"Read-only access to one folder: list it and read files in it. Paths are relative to that folder; nothing outside it can be reached.")
	mcp.AddTool(s, listDirectoryTool, f.listDirectory)
	mcp.AddTool(s, readFileTool, f.readFile)
	return s, nil
}

// local returns a path in the form that os.Root accepts, or an error that says how to write
// paths.
func local(path string) (string, error) {
	name := filepath.FromSlash(path)
	if name == "" {
		return ".", nil
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is outside the root folder; paths are relative to it, such as \"docs/readme.md\", and \".\" is the folder itself", path)
	}
	return filepath.Clean(name), nil
}

type listArgs struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"`
}

type listing struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated"`
}

type entry struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Size     *int64 `json:"size,omitempty"`
	Modified string `json:"modified,omitempty"`
	Symlink  bool   `json:"symlink,omitempty"`
}

var listDirectoryTool = readOnly("list_directory", "List a directory",
	"List the files and subdirectories of a directory (folder) below the root folder, with type, size in bytes and time of modification, sorted by name.",
	`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "default": ".", "description": "The directory, relative to the root folder."},
		"limit": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1000, "description": "How many entries to return at most."}
	},
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"path": {"type": "string"},
		"entries": {"type": "array", "items": {
			"type": "object",
			"properties": {
				"name": {"type": "string"},
				"type": {"type": "string", "enum": ["file", "directory", "symlink", "other"], "description": "Of what a symbolic link leads to; symlink if that is missing or outside the root folder."},
				"size": {"type": "integer", "description": "In bytes, of files."},
				"modified": {"type": "string", "description": "RFC 3339, UTC."},
				"symlink": {"type": "boolean", "description": "Whether this is a symbolic link."}
			},
			"required": ["name", "type"],
			"additionalProperties": false
		}},
		"total": {"type": "integer", "description": "How many entries the directory has."},
		"truncated": {"type": "boolean", "description": "Whether there are more than were returned."}
	},
	"required": ["path", "entries", "total", "truncated"],
	"additionalProperties": false
}`)

func (f files) listDirectory(_ context.Context, _ *mcp.CallToolRequest, a listArgs) (*mcp.CallToolResult, listing, error) {
	name, err := local(a.Path)
	if err != nil {
		return nil, listing{}, err
	}
	dir, err := f.open(name)
	if err != nil {
		return nil, listing{}, fmt.Errorf("list directory: %w", err)
	}
	defer dir.Close()
	all, err := dir.ReadDir(-1)
	if err != nil {
		return nil, listing{}, fmt.Errorf("list directory: %w", err)
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	result := listing{Path: filepath.ToSlash(name), Entries: []entry{}, Total: len(all), Truncated: len(all) > a.Limit}
	for _, d := range all[:min(a.Limit, len(all))] {
		result.Entries = append(result.Entries, f.describe(filepath.Join(name, d.Name()), d))
	}
	return nil, result, nil
}

// describe returns the kind of an entry, and the target of a link.
func (f files) describe(name string, d fs.DirEntry) entry {
	e := entry{Name: d.Name(), Type: "other", Symlink: d.Type()&fs.ModeSymlink != 0}
	info, err := f.root.Stat(name)
	switch {
	case err != nil && e.Symlink:
		e.Type = "symlink"
		return e
	case err != nil: // it was removed in the meantime
		return e
	case info.IsDir():
		e.Type = "directory"
	case info.Mode().IsRegular():
		e.Type = "file"
		e.Size = new(info.Size())
	}
	e.Modified = info.ModTime().UTC().Format(time.RFC3339)
	return e
}

// open opens a file or a directory. It rejects pipes and devices, because opening them can
// block or have side effects.
func (f files) open(name string) (*os.File, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a directory", name)
	}
	return f.root.Open(name)
}

type readArgs struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit"`
}

type fileContent struct {
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	Offset     int64  `json:"offset"`
	Encoding   string `json:"encoding"`
	Content    string `json:"content"`
	NextOffset *int64 `json:"next_offset,omitempty"`
}

var readFileTool = readOnly("read_file", "Read a file",
	"Read the contents of a file below the root folder, whole or in parts. Text comes as text, anything else as base64. "+
		"Where more is left, next_offset is where to read on.",
	`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "description": "The file, relative to the root folder."},
		"offset": {"type": "integer", "minimum": 0, "maximum": 9007199254740991, "default": 0, "description": "The byte to begin at."},
		"limit": {"type": "integer", "minimum": 1, "maximum": 1048576, "default": 65536, "description": "How many bytes to read at most."}
	},
	"required": ["path"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"path": {"type": "string"},
		"size": {"type": "integer", "description": "Of the whole file, in bytes."},
		"offset": {"type": "integer", "description": "The byte at which content begins."},
		"encoding": {"type": "string", "enum": ["utf-8", "base64"]},
		"content": {"type": "string", "description": "The text, or the bytes in base64."},
		"next_offset": {"type": "integer", "description": "Where to read on; absent at the end of the file."}
	},
	"required": ["path", "size", "offset", "encoding", "content"],
	"additionalProperties": false
}`)

func (f files) readFile(_ context.Context, _ *mcp.CallToolRequest, a readArgs) (*mcp.CallToolResult, fileContent, error) {
	c, err := f.read(a)
	if err != nil {
		err = fmt.Errorf("read file: %w", err)
	}
	return nil, c, err
}

func (f files) read(a readArgs) (fileContent, error) {
	name, err := local(a.Path)
	if err != nil {
		return fileContent{}, err
	}
	file, err := f.open(name)
	if err != nil {
		return fileContent{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileContent{}, err
	}
	if info.IsDir() {
		return fileContent{}, fmt.Errorf("%s is a directory; use list_directory", a.Path)
	}
	if a.Offset > info.Size() {
		return fileContent{}, fmt.Errorf("offset %d is beyond the end of %s, which has %d bytes", a.Offset, a.Path, info.Size())
	}
	data := make([]byte, a.Limit)
	n, err := file.ReadAt(data, a.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return fileContent{}, err
	}
	data = data[:n]
	c := fileContent{Path: filepath.ToSlash(name), Size: info.Size(), Offset: a.Offset}
	if skipped, text, ok := wholeRunes(data); ok {
		c.Offset += int64(skipped)
		c.Encoding, c.Content = "utf-8", text
		n = len(text)
	} else {
		c.Encoding, c.Content = "base64", base64.StdEncoding.EncodeToString(data)
	}
	if end := c.Offset + int64(n); end < c.Size {
		c.NextOffset = &end
	}
	return c, nil
}

// wholeRunes returns data as text, without incomplete characters at either end; ok is false
// if it is not UTF-8.
func wholeRunes(data []byte) (skipped int, text string, ok bool) {
	for skipped < len(data) && skipped < utf8.UTFMax-1 && !utf8.RuneStart(data[skipped]) {
		skipped++
	}
	text = string(data[skipped : len(data)-plain.Unfinished(data[skipped:])])
	ok = utf8.ValidString(text) && !strings.ContainsRune(text, 0) && (text != "" || len(data) == 0)
	return skipped, text, ok
}
