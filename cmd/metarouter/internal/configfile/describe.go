package configfile

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

const (
	hidden   = "•••" // in place of a secret that is written in the file
	maxLines = 1000  // of a description
	maxValue = 1000  // bytes of a value
	maxWords = 200   // of a list
)

// harmless are the keys that are not shown: they start no program, send nothing off the machine,
// write no file, and open nothing to others. All other keys are shown, also keys that nothing
// reads. The keys of "metarouter" come first, then the keys of a server.
var (
	harmless = set(
		"mode", "names", "separator", "toolBudget", "listWait", "lazy", "idleTimeout", "timeout", "maxResultTokens", "findThreshold", "findTools",
		"gateway.name", "gateway.prefix", "scripts.timeout", "scripts.cpu", "scripts.memory", "scripts.calls", "scripts.concurrent",
		"http.maxBody", "http.maxBodyMemory", "http.maxConnections", "http.maxHeader", "http.maxBatch", "http.readTimeout", "http.maxSessions", "http.sessionTimeout", "http.rate",
		"classification.timeout", "classification.max_retries", "classification.cache_categories", "classification.refresh_interval",
		"classification.threshold", "classification.confidence_threshold", "classification.max_text", "classification.num_categories",
	)
	harmlessOfServer = set(
		"credentials",
		"lazy", "timeout", "startTimeout", "idleTimeout", "maxConcurrent", "priority", "maxResultTokens", "cache",
		"tools.timeout", "tools.maxResultTokens", "tools.rate",
	)
)

// notes explain a key to the person who approves.
var (
	notes = map[string]string{
		"accessLog": "each call is written there", "accessLog.file": "each call is written there",
		"classification.url":    "gets the texts to classify",
		"classification.server": "gets the texts to classify",
		"fillArguments":         "the person is asked for arguments",
		"http.addr":             "with --http, the router listens there",
		"http.publicUrl":        "logins at remote servers come back there, and tokens are issued for it",

		"http.oauth.issuers.url":          "its tokens let clients in",
		"http.oauth.issuers.jwksUrl":      "keys from there let clients in",
		"http.oauth.issuers.clientSecret": "sent to the issuer",
		"http.clientCA":                   "certificates that it signs let clients in",
		"audit":                           "what administrators do is written there; with false, nowhere",
		"audit.file":                      "what administrators do is written there",

		"cluster.urls":    "the router connects there; who runs it can see calls and results",
		"cluster.name":    "routers of other machines with this name find this one",
		"cluster.creds":   "a file of yours with which the router logs in there",
		"cluster.tls.key": "a file of yours with which the router logs in there",
		"cluster.share":   "trusted nodes can call these servers on this machine",
		"cluster.use":     "servers on trusted nodes that get arguments of calls",
		"cluster.trusted": "these nodes can call the shared servers, and offer theirs",
	}
	notesOfServer = map[string]string{
		"envFile":       "more variables; the approval does not cover what is in this file",
		"inheritEnv":    "variables of yours that it gets",
		"roots":         "folders that it gets in place of the client's",
		"headersHelper": "a command that runs at each connection",

		"oauth.authServerMetadataUrl": "names who gets the login: your browser is sent there, and so are client secrets",
		"oauth.clientMetadataUrl":     "names the client that you log in as, and where logins come back",
		"oauth.callbackUrl":           "your browser takes the code of the login there", "oauth.redirectUri": "your browser takes the code of the login there",
		"oauth.resource": "the server for which the token is asked",
		"oauth.scopes":   "what the token permits", "oauth.scope": "what the token permits",
		"oauth.clientSecret": "sent to who issues the tokens",
		"oauth.privateKey":   "signs for who issues the tokens",
		"url":                "gets the arguments of calls", "httpUrl": "gets the arguments of calls", "serverUrl": "gets the arguments of calls",
	}
)

func set(keys ...string) map[string]bool {
	all := make(map[string]bool)
	for _, key := range keys {
		all[key] = true
	}
	return all
}

// Describe shows the keys that an approval covers, of a text of [config.LoadText]: all that are not known to be harmless, in the order of the files. Variables are not
// replaced by their values. Values of keys and of arguments that are named like a secret are
// hidden. Words of the file are quoted, so that they can't move the cursor.
//
// since says how the text differs from the text that was approved before; nil if that is not known.
// Parts that differ are marked as new or edited, and show all keys: a harmless one may be
// the edited one.
func Describe(t trustfile.Text, since *trustfile.Untrusted) string {
	p := page{marks: make(map[string]string)}
	if since != nil && since.Before {
		for _, name := range since.Added {
			p.marks[name] = "new"
		}
		for _, name := range since.Edited {
			p.marks[name] = "edited"
		}
		p.settings = since.Settings
	}
	for i, text := range t.Objects() {
		if len(t.Files) > 1 {
			p.line("%s:", Quote(t.Files[i]))
		}
		root, err := hujson.Parse(text)
		if err != nil {
			p.cut = true // impossible: we have written it
			continue
		}
		p.file(root.Value.(*hujson.Object))
		for _, s := range t.Scripts[i] {
			p.script(s)
		}
	}
	if p.lines > maxLines {
		p.cut = true
		fmt.Fprintf(&p.text, "  … and %d more lines\n", p.lines-maxLines)
	}
	if p.cut {
		p.text.WriteString("This is not all: READ THE FILE before you approve it.\n")
	}
	return p.text.String()
}

// A page is the description as far as it is written.
type page struct {
	text  strings.Builder
	lines int  // with those above maxLines, which are not written
	cut   bool // something is not shown that should be

	title    string            // of the part that has no line yet
	marks    map[string]string // of the servers that differ from the approved text, by name
	settings bool              // "metarouter" differs
}

func (p *page) line(format string, args ...any) {
	p.begin()
	if p.lines++; p.lines <= maxLines {
		fmt.Fprintf(&p.text, "  "+format+"\n", args...)
	}
}

func (p *page) file(root *hujson.Object) {
	for _, m := range root.Members {
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch key := jsonc.Key(m); {
		case key == "metarouter":
			mark := ""
			if p.settings {
				mark = "edited"
			}
			p.section(key, "metarouter:", mark, m.Value, part{harmless: harmless, notes: notes})
			p.title = "" // it has none without a key that is shown
		case isObject && (key == "mcpServers" || key == "servers" || key == "context_servers"):
			for _, s := range servers.Members {
				p.server(jsonc.Key(s), s.Value)
			}
		default: // a server of a file without such a key, or a mistake
			p.server(key, m.Value)
		}
	}
}

func (p *page) server(name string, v hujson.Value) {
	of := part{page: p, harmless: harmlessOfServer, notes: notesOfServer}
	p.section(name, Quote(name), p.marks[name], v, of)
	of.windows(v)
	p.begin() // if it has no key that is shown
}

// script shows a stored script without its code.
func (p *page) script(s stored.Script) {
	note := fmt.Sprintf("a script of %d bytes that runs with the rights of each caller; you approve all of it: read the file", len(s.Code))
	p.section("", Quote(s.File), p.marks[s.File], hujson.Value{Value: hujson.String(s.Description)}, part{notes: map[string]string{"": note}})
}

// windows shows the command that a command line for Windows becomes on other systems.
func (p part) windows(v hujson.Value) {
	entry, _ := v.Value.(*hujson.Object)
	if entry == nil || runtime.GOOS == "windows" {
		return
	}
	var command string
	var args []string
	members := entry.Members
	m, _ := jsonc.Member(entry, "command")
	if inner, ok := m.Value.Value.(*hujson.Object); ok {
		members = slices.Concat(members, inner.Members) // in Zed's dialect
	}
	for _, m := range members {
		switch key, value := jsonc.Key(m), m.Value.Value; {
		case (key == "command" || key == "path") && value.Kind() == '"':
			command = value.(hujson.Literal).String()
		case key == "args" && value.Kind() == '[':
			args = nil
			for _, e := range value.(*hujson.Array).Elements {
				if word, ok := e.Value.(hujson.Literal); ok && word.Kind() != 'n' {
					args = append(args, word.String())
				}
			}
		}
	}
	w, ok := program.ForWindows(command, args)
	if !ok || w.Command == "" {
		return
	}
	var words []string
	before := ""
	for _, word := range append([]string{w.Command}, w.Args...) {
		words, before = append(words, p.short(Quote(masking("args", "", before)(word)))), word
	}
	p.line("  %-14s %s (the entry is for Windows)", "runs here", strings.Join(words, " "))
}

// begin writes the title of a part that has no line yet.
func (p *page) begin() {
	if title := p.title; title != "" {
		p.title = ""
		p.line("%s", title)
	}
}

// section writes a part, with its title before the first line.
func (p *page) section(key, title, mark string, v hujson.Value, of part) {
	if p.title = title; mark != "" {
		p.title += " (" + mark + ")"
		of.harmless = nil
	}
	of.page = p
	if v.Value.Kind() != '{' {
		of.name = key
	}
	of.value("", "", v)
}

// A part is the text of a server or of "metarouter".
type part struct {
	*page
	name     string // of a server that is no object
	harmless map[string]bool
	notes    map[string]string
}

// value shows the value at a path of keys. within is the first key of the path.
func (p part) value(path, within string, v hujson.Value) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for _, m := range value.Members {
			key := jsonc.Key(m)
			at := key
			if path != "" {
				at = path + "." + key
			}
			if !p.harmless[at] {
				p.value(at, path, m.Value)
			}
		}
		if len(value.Members) > 0 || path == "" {
			return
		}
		p.show(path, "{}")
	case *hujson.Array:
		if slices.ContainsFunc(value.Elements, func(e hujson.Value) bool { return e.Value.Kind() == '{' || e.Value.Kind() == '[' }) {
			for i, e := range value.Elements {
				p.value(fmt.Sprintf("%s[%d]", path, i), within, e)
			}
			return
		}
		words, before := make([]string, len(value.Elements)), ""
		for i, e := range value.Elements {
			words[i] = p.word(masking(p.name+path, within, before), e)
			before = e.Value.(hujson.Literal).String()
		}
		if len(words) == 0 {
			words = []string{"[]"}
		}
		if more := len(words) - maxWords; more > 0 {
			p.cut = true
			words = append(words[:maxWords], fmt.Sprintf("… %d more words", more))
		}
		p.show(path, strings.Join(words, " "))
	case hujson.Literal:
		p.show(path, p.word(masking(p.name+path, within, ""), v))
	}
}

// index matches the index of an element in a path.
var index = lazy.Regexp(`\[[0-9]+\]`)

// show writes the line of a value.
func (p part) show(path, text string) {
	note := ""
	if said, ok := p.notes[index().ReplaceAllString(path, "")]; ok {
		note = " (" + said + ")"
	}
	if path == "" { // a server that is no object
		path = "is"
	}
	p.line("  %-14s %s%s", p.short(Quote(path)), text, note)
}

// word returns a value that is neither an object nor an array.
func (p part) word(mask func(string) string, v hujson.Value) string {
	said := v.Value.(hujson.Literal)
	switch kind := said.Kind(); {
	case kind == '0' && mask("0") != "0":
		return hidden
	case kind != '"':
		return p.short(said.String())
	}
	return p.short(Quote(mask(said.String())))
}

// short cuts the middle out of a long word.
func (p part) short(word string) string {
	if len(word) <= maxValue {
		return word
	}
	p.cut = true
	const end = 200
	begin, last := word[:maxValue-end], word[len(word)-end:]
	return fmt.Sprintf("%s … %d more bytes … %s", strings.ToValidUTF8(begin, ""), len(word)-maxValue, strings.ToValidUTF8(last, ""))
}

// Quote returns a word unchanged if it is printable and has no space, else quoted.
func Quote(word string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' && r != unicode.ReplacementChar }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.Quote(word)
}
