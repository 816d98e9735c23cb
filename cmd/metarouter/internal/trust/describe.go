package trust

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const (
	hidden   = "•••" // in place of a secret that is written in the file
	maxLines = 1000  // of a description
	maxValue = 1000  // bytes of a value
	maxWords = 200   // of a list
)

// harmless are the keys that are not shown: they neither decide what runs, nor what leaves
// the machine, is written, or is open to others. All other keys are shown, also those that
// nothing reads. The keys of "metarouter" come first, then those of a server.
var (
	harmless = set(
		"mode", "names", "separator", "toolBudget", "listWait", "lazy", "idleTimeout", "timeout", "maxResultTokens", "findThreshold",
		"http.maxBody", "http.maxBodyMemory", "http.maxConnections", "http.maxHeader", "http.maxBatch", "http.readTimeout", "http.maxSessions", "http.sessionTimeout", "http.rate",
		"classification.timeout", "classification.max_retries", "classification.cache_categories", "classification.refresh_interval",
		"classification.threshold", "classification.confidence_threshold", "classification.max_text", "classification.num_categories",
	)
	harmlessOfServer = set(
		"lazy", "timeout", "startTimeout", "idleTimeout", "maxConcurrent", "priority", "maxResultTokens", "cache",
		"tools.timeout", "tools.maxResultTokens",
	)
)

// notes say what a key means for the person who approves.
var (
	notes = map[string]string{
		"accessLog": "each call is written there", "accessLog.file": "each call is written there",
		"assist": "a model that gets tasks, and descriptions of tools", "assist.url": "gets tasks, and descriptions of tools",
		"embeddings.url":        "gets tasks, and descriptions of tools",
		"classification.url":    "gets the texts to classify",
		"classification.server": "gets the texts to classify",
		"fillArguments":         "the client's model is asked for arguments",
		"http.addr":             "with --http, the router listens there",
	}
	notesOfServer = map[string]string{
		"envFile":    "more variables; the approval does not cover what is in this file",
		"inheritEnv": "variables of yours that it gets",
		"url":        "gets the arguments of calls", "httpUrl": "gets the arguments of calls", "serverUrl": "gets the arguments of calls",
	}
)

func set(keys ...string) map[string]bool {
	return maps.Collect(func(yield func(string, bool) bool) {
		for _, key := range keys {
			yield(key, true)
		}
	})
}

// Describe shows what an approval of c covers, which is a text of [config.LoadText]: every
// key of it that is not known to be harmless, in the order of the files. Variables are not
// replaced by their values. Secrets among headers, variables and tokens are hidden. Words of
// the file are quoted, so that they can't move the cursor.
func Describe(c config.Config) string {
	var p page
	for i, text := range c.Text() {
		if len(c.Files) > 1 {
			p.line("%s:", Quote(c.Files[i]))
		}
		root, err := hujson.Parse(text)
		if err != nil {
			p.cut = true // impossible: config has written it
			continue
		}
		p.file(root.Value.(*hujson.Object))
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
}

func (p *page) line(format string, args ...any) {
	if p.lines++; p.lines <= maxLines {
		fmt.Fprintf(&p.text, "  "+format+"\n", args...)
	}
}

func (p *page) file(root *hujson.Object) {
	for _, m := range root.Members {
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch key := keyOf(m); {
		case key == "metarouter":
			p.section("metarouter:", m.Value, part{harmless: harmless, notes: notes})
		case isObject && (key == "mcpServers" || key == "servers" || key == "context_servers"):
			for _, s := range servers.Members {
				p.section(Quote(keyOf(s)), s.Value, part{harmless: harmlessOfServer, notes: notesOfServer})
			}
		default: // a server of a file without such a key, or a mistake
			p.section(Quote(key), m.Value, part{harmless: harmlessOfServer, notes: notesOfServer})
		}
	}
}

func (p *page) section(title string, v hujson.Value, of part) {
	p.line("%s", title)
	of.page = p
	of.value("", "", v)
}

// A part is the text of a server or of "metarouter".
type part struct {
	*page
	harmless map[string]bool
	notes    map[string]string
}

// value shows the value at a path of keys. within is the first key of the path.
func (p part) value(path, within string, v hujson.Value) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for _, m := range value.Members {
			key := keyOf(m)
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
		words := make([]string, len(value.Elements))
		for i, e := range value.Elements {
			words[i] = p.word(masking(path, within), e)
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
		p.show(path, p.word(masking(path, within), v))
	}
}

// show writes the line of a value.
func (p part) show(path, text string) {
	note := ""
	if said, ok := p.notes[path]; ok {
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
	if said.Kind() != '"' {
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

// masking returns what hides the secrets of a value. Commands and their arguments hide
// nothing, so that no one can hide a command as the value of something.
func masking(path, within string) func(string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case within == "headers" || strings.HasSuffix(within, ".headers"), path == "http.tokens":
		return literals
	case (within == "env" || strings.HasSuffix(within, ".env")) && secret.Named(key) && !strings.HasSuffix(strings.ToUpper(key), "ASKPASS"): // which names a program
		return literals
	case strings.HasSuffix(strings.ToLower(key), "url"):
		return func(s string) string { return secret.URL(s, hidden) }
	}
	return func(s string) string { return s }
}

// schemes begin the values of headers, and are no secrets.
var schemes = []string{"Bearer ", "Basic ", "Digest ", "Token "}

// literals hides all of a value but its references to variables, without their defaults.
func literals(value string) string {
	var b strings.Builder
	for _, scheme := range schemes {
		if rest, ok := strings.CutPrefix(value, scheme); ok {
			b.WriteString(scheme)
			value = rest
		}
	}
	for value != "" {
		before, rest, found := strings.Cut(value, "${")
		if before != "" {
			b.WriteString(hidden)
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if bare, _, hasDefault := strings.Cut(name, ":-"); closed && hasDefault {
			b.WriteString("${" + bare + ":-" + hidden + "}")
		} else if closed {
			b.WriteString("${" + name + "}")
		} else {
			b.WriteString(hidden)
		}
		value = after
	}
	return b.String()
}

func keyOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// Quote returns a word unchanged if it is printable and has no space, else quoted.
func Quote(word string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' && r != unicode.ReplacementChar }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.Quote(word)
}
