package cli

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// SkillOptions are the flags of skill.
type SkillOptions struct {
	Servers     []string
	Write, User bool
}

// Skill prints or writes the skill, with the words of a router on the servers if it names some.
func Skill(ctx context.Context, e *Env, o SkillOptions) error {
	flags := ""
	for _, path := range e.Files.Paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		flags += " --config " + commandline.Quote(path)
	}
	var found admin.Tools
	if len(o.Servers) > 0 {
		in := admin.ToolsRequest{Servers: o.Servers, Schemas: true, Limit: math.MaxInt32}
		if err := show(ctx, e, need{}, "/dashboard/tools", in, func(answer admin.Tools) error { found = answer; return nil }); err != nil {
			return err
		}
	}
	_, _, err := e.Files.Find()
	if none, ok := errors.AsType[*configfile.NoConfiguration](err); ok {
		e.Note("no tool can be called yet: %s", none.Problem("").Message)
	}
	return writeSkill(&edit.Editor{Source: e.Files, Write: o.Write}, skillText(o.Servers, found.Tools, flags), o.User)
}

// A skillServer has the words that the skill has about a server: only words, since a model takes the
// skill for instructions, and servers chose their sentences.
type skillServer struct{ Name, Count, Words string }

// serverOf returns the words about a server: the most frequent tags of its tools, and the names of some.
func serverOf(name string, tools []admin.Tool) skillServer {
	tags, count, names := make(map[string]int), 0, []string(nil)
	for _, t := range tools {
		if t.Server != name {
			continue
		}
		count++
		for _, tag := range t.Capabilities {
			if isWord(tag) && tag != "write" && tag != "delete" { // these do not say what it is for
				tags[tag]++
			}
		}
		if isWord(t.Name) {
			names = append(names, t.Name)
		}
	}
	words := slices.SortedFunc(maps.Keys(tags), func(a, b string) int { return cmp.Or(cmp.Compare(tags[b], tags[a]), strings.Compare(a, b)) })
	words = append(words[:min(len(words), 6)], names[:min(len(names), 4)]...)
	return skillServer{console.Cut(plain.Line(name), 64), console.Counted(count, "tool"), strings.Join(words, ", ")}
}

// isWord reports whether the skill may repeat a word that a server chose: one that is
// no sentence to a model, and no part of the text's form.
func isWord(word string) bool {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	return word != "" && len(word) <= 64 && strings.Trim(word, safe) == ""
}

const (
	maxServers    = 20
	maxServerList = 700 // bytes; readers of skills cut the description at 1024
)

//go:embed skill.md
var skillTemplate string

// skillText returns the SKILL.md that names the servers. flags follow each command that has them.
func skillText(servers []string, tools []admin.Tool, flags string) string {
	data := struct {
		Description, Flags string
		Servers            []skillServer
	}{Flags: flags}
	list := ". Use when a task needs a service or tool that is not at hand, such as a browser, a database, an issue tracker, mail or a calendar; when the user names an MCP server or tool;"
	for i, name := range servers[:min(len(servers), maxServers)] {
		s, before := serverOf(name, tools), ", "
		if data.Servers = append(data.Servers, s); i == 0 {
			list, before = "", ": "
		}
		list += before + s.Name
		if s.Words != "" {
			list += " (" + s.Words + ")"
		}
	}
	if len(servers) > 0 {
		list = prose.Cut(list, maxServerList) + ". Use when a task is about one of these, when the user names one of these servers,"
	}
	data.Description = string(wire.Marshal("Finds and runs tools of MCP servers from the shell with the command metarouter" + list + " and before saying that something cannot be done."))
	var b strings.Builder
	if err := template.Must(template.New("skill").Parse(skillTemplate)).Execute(&b, data); err != nil {
		panic(err) // the template and its data are ours
	}
	return b.String()
}

// writeSkill prints the text, or writes it to the file at which Claude Code reads the skill, if the editor
// writes: of this folder, or of the user.
func writeSkill(e *edit.Editor, text string, user bool) error {
	folder := ".claude"
	if user {
		home, err := os.UserHomeDir()
		if folder = cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude")); err != nil && os.Getenv("CLAUDE_CONFIG_DIR") == "" {
			return err
		}
	}
	path := filepath.Join(folder, "skills", "metarouter", "SKILL.md")
	f, err := clients.Read(path)
	if err != nil {
		return err
	}
	if !e.Write {
		if _, err := fmt.Fprint(e.Console.Out, text); err != nil {
			return err
		}
	}
	switch {
	case f.Exists && bytes.Equal(f.Data, []byte(text)):
		e.Console.Note("%s has it already; nothing to do", path)
	case e.Write:
		return e.Replace(f, text)
	case f.Exists:
		e.Console.Note("nothing was written; --write replaces %s, which differs, and keeps a copy of it", path)
	default:
		e.Console.Note("nothing was written; --write puts it into %s", path)
	}
	return nil
}
