// Package stored reads the scripts of a folder that are tools. It is a leaf, and runs nothing.
package stored

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxScripts = 100      // of one folder
	maxFiles   = 1000     // of one folder, with those that are no scripts
	maxCode    = 64 << 10 // bytes of a script, as in package script
)

// A Script is a file whose header makes it a tool.
type Script struct {
	Name        string          // of the tool: of the file, without ".js"
	File        string          // such as "scripts/close-stale.js", relative to the project's folder
	Code        string          // the whole text of the file
	Description string          // of the tool
	Input       json.RawMessage // the JSON Schema of the tool's arguments
}

// A Problem says why a file is no tool.
type Problem struct {
	File   string // as in Script
	Text   []byte // of the file, if it could be read
	Offset int    // of the mistake in Text
	Err    error  // the mistake, and after "; " the correction
}

// A Folder is the content of a folder.
type Folder struct {
	Scripts  []Script  // sorted by name
	Problems []Problem // of files that are no tools, sorted by name
	Err      error     // about the folder, as in Problem; nil if there is none
}

// Read reads the files *.js of a folder, which is relative to dir. No link leads out of dir.
func Read(dir, folder string) (f Folder) {
	if !filepath.IsLocal(folder) {
		return Folder{Err: errors.New(`"folder" must be a path inside of the project's folder; write one such as "scripts"`)}
	}
	var names []string
	root, err := os.OpenRoot(dir)
	if err == nil {
		defer root.Close()
		names, err = list(root, folder)
	}
	if err != nil {
		return Folder{Err: fmt.Errorf("the folder %q can't be read: %w; make it, or correct the path", folder, err)}
	}
	if n := len(names); n > maxScripts {
		names, f.Err = names[:maxScripts], fmt.Errorf("the folder %q has %d scripts, and only the first %d by name are tools; move the others elsewhere", folder, n, maxScripts)
	}
	for _, name := range names {
		p := Problem{File: path.Join(filepath.ToSlash(folder), name)}
		var s Script
		if p.Text, p.Err = read(root, filepath.Join(folder, name)); p.Err == nil {
			s, p.Offset, p.Err = parse(strings.TrimSuffix(name, ".js"), string(p.Text))
		}
		if s.File = p.File; p.Err == nil {
			f.Scripts = append(f.Scripts, s)
		} else {
			f.Problems = append(f.Problems, p)
		}
	}
	return f
}

// list returns the names of the files *.js in a folder, sorted. Hidden files do not count.
func list(root *os.Root, folder string) ([]string, error) {
	d, err := root.Open(folder + "/.") // so that no FIFO is waited for
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxFiles + 1)
	if len(names) > maxFiles {
		err = fmt.Errorf("it has more than %d files", maxFiles)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".js" || name[0] == '.' }), nil
}

func read(root *os.Root, name string) ([]byte, error) {
	text, err := safefile.ReadIn(root, name, maxCode)
	switch text = bytes.TrimPrefix(safefile.UTF8(text), []byte("\ufeff")); {
	case err != nil:
		return nil, fmt.Errorf("the script can't be read: %w; correct the file, or move it elsewhere", err)
	case !utf8.Valid(text):
		return nil, errors.New("the script is not UTF-8; save it in that encoding")
	}
	return text, nil
}

var (
	legal      = lazy.Regexp(`^[a-zA-Z0-9_-]{1,64}$`) // a name that clients accept for a tool
	comment    = lazy.Regexp(`^\s*(?:/\*(?s:.*?)\*/|(?:[ \t]*//[^\n]*\n?)+)`)
	blockMarks = lazy.Regexp(`(?m)^[ \t]*(?:/\*+/?|\*+/|\*)|\*+/`)
	lineMarks  = lazy.Regexp(`(?m)^[ \t]*//`)
	begin      = lazy.Regexp(`(?m)^[ \t]*\{`) // of the schema
)

// parse reads the header, the first comment of a script: a description, and from the first line on that begins
// with {, the JSON Schema of the input. Without a schema, the input is any object. The error is about the place.
func parse(name, code string) (s Script, at int, err error) {
	if !legal().MatchString(name) {
		return Script{}, 0, errors.New("the name of a tool has at most 64 letters, digits, _ and -; rename the file")
	}
	header, marks := comment().FindString(code), lineMarks()
	if strings.HasPrefix(strings.TrimSpace(header), "/*") {
		marks = blockMarks()
	}
	// The marks become spaces, so that places in the header are places in the script.
	header = marks.ReplaceAllStringFunc(header, func(mark string) string { return strings.Repeat(" ", len(mark)) })
	input := json.RawMessage(`{"type":"object"}`)
	if place := begin().FindStringIndex(header); place != nil {
		at = place[1] - 1
		if input, at, err = parseSchema(header, at); err != nil {
			return Script{}, at, err
		}
		header = header[:at]
	}
	for line := range strings.Lines(header) {
		s.Description += strings.TrimSpace(line) + "\n"
	}
	if s.Description = strings.TrimSpace(s.Description); s.Description == "" {
		return Script{}, 0, errors.New("the script has no description, so it is no tool; begin it with a comment such as /* Closes stale issues. */")
	}
	s.Name, s.Code, s.Input = name, code, input
	return s, 0, nil
}

// parseSchema reads the schema that begins at a place of the header, and goes on to its end.
func parseSchema(header string, at int) (json.RawMessage, int, error) {
	value, wrong := jsonc.Parse([]byte(header[at:]))
	if wrong != nil {
		return nil, min(at+wrong.Offset, len(header)), fmt.Errorf("the schema in the header is no JSON: %w", wrong)
	}
	input := jsonc.Compact(value)
	if string(wire.Member(input, "type")) != `"object"` {
		return nil, at, errors.New(`the schema in the header must be of an object; write {"type": "object", "properties": {…}}`)
	}
	if _, err := schema.Compile(input); err != nil {
		return nil, at, fmt.Errorf("the schema in the header can't be used: %s; correct it", plain.Line(err.Error()))
	}
	return input, at, nil
}
