package verbs

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

const (
	maxSteps     = 32   // of a task
	maxRead      = 8192 // bytes of a task
	maxApart     = 4    // words between the two of a verb
	maxStatement = 5    // words of a task without a verb that asks to see something
)

// polite are the words before the verb of a task.
var polite = lazy.Words(`please kindly hey hi hello ok okay so well now then just also and but or can could would will should must may might
you we i id im ill we'd lets let's i'd i'll i'm let me us help want wants need needs like love have try trying to be able going gonna wanna
go ahead and quickly quick maybe perhaps actually really simply finally first next first, again the a an some my our your all any every this that`)

// before are the words that a description may have before its verb.
var before = lazy.Words(`this that the a an tool tools function api endpoint operation use used using useful for to allows allow lets let enables
enable helps help you users user agent agents it can will is be i when call simple simply easily quickly`)

// questions are the words with which a question begins.
var questions = lazy.Words(`what which who whom whose where when why how is are was were does did do has have had am any anything whats what's wheres
where's hows how's whos who's`)

// Task returns the actions that each step of a task asks for, as far as they are known. The polite words
// of the task have to be in it: "show me the open issues" asks to list.
func Task(text string) (steps []Set) {
	l := words()
	count := 0
	for _, part := range split(text[:min(len(text), maxRead)]) {
		all := tokens(part)
		count += len(all)
		if s := l.step(all); s != 0 && len(steps) < maxSteps {
			steps = append(steps, s)
		}
	}
	if len(steps) == 0 && count > 0 && count <= maxStatement {
		steps = append(steps, l.statement)
	}
	return steps
}

// Word returns the actions that a word in lower case, or its English stem, asks for. It is empty for a
// noun.
func Word(word string) Set {
	l := words()
	if l.nouns[word] {
		return 0
	}
	return l.verbs[word]
}

// step returns the actions that the words of one step ask for.
func (l *lexicon) step(all []string) Set {
	for at, word := range all {
		if s := l.phrase(all, at); s != 0 {
			return s
		}
		if questions()[word] && !asks(all, at) {
			return l.question
		}
		if polite()[word] {
			continue
		}
		if s := l.verbs[word]; s != 0 && base(word) {
			if l.adjectives[word] && len(all) <= maxStatement && at+1 < len(all) && !polite()[all[at+1]] {
				s |= l.statement // "open issues"
			}
			return s
		}
		break
	}
	if len(all) <= maxStatement+1 { // key words, such as "github issue create"
		for at, word := range all {
			if s := l.phrase(all, at); s != 0 {
				return s
			}
			if s := l.verbs[word]; s != 0 && !l.nouns[word] && (base(word) || at == 0) {
				return s
			}
		}
	}
	return 0
}

// asks reports whether the word at that position begins a wish, such as "do you" or "have
// to", and not a question.
func asks(all []string, at int) bool {
	switch all[at] {
	case "have", "had", "any", "do":
		return at > 0 || at+1 < len(all) && all[at] == "have" && all[at+1] == "to"
	}
	return false
}

// base reports whether a verb looks like its base form: "deleted files" asks for no deletion.
func base(word string) bool {
	return len(word) <= 4 || !strings.HasSuffix(word, "ed") && !strings.HasSuffix(word, "ing")
}

// phrase returns the classes of the verb of several words that begins at that word.
func (l *lexicon) phrase(all []string, at int) Set {
	for _, v := range l.phrases[all[at]] {
		if len(all)-at > len(v.rest) && slices.Equal(all[at+1:at+1+len(v.rest)], v.rest) {
			return v.classes
		}
		if !v.apart || len(v.rest) != 1 {
			continue
		}
		if slices.Contains(all[at+1:min(len(all), at+2+maxApart)], v.rest[0]) {
			return v.classes
		}
	}
	return 0
}

// Tool returns the actions of a tool, by its name and else by its description. A tool that is
// read-only does nothing that writes, whatever its name says.
func Tool(server, name, description string, readOnly bool) Set {
	l := words()
	s := l.tool(server, name, description)
	if readOnly {
		s &^= l.writing
	}
	return s
}

func (l *lexicon) tool(server, name, description string) Set {
	all := tokens(name)
	prefix := tokens(server)
	for len(all) > 1 && slices.Contains(prefix, all[0]) {
		all = all[1:]
	}
	named := l.name(all)
	if named != 0 && named&(named-1) == 0 { // one class
		return named
	}
	told := l.description(description)
	if both := named & told; both != 0 {
		return both
	}
	if named != 0 {
		return named
	}
	return told
}

// name returns the classes of the first verb of a name that is no noun; else of its first
// or last word.
func (l *lexicon) name(all []string) Set {
	for _, word := range all {
		if s := Word(word); s != 0 && base(word) {
			return s
		}
	}
	if len(all) == 0 {
		return 0
	}
	for _, word := range []string{all[0], all[len(all)-1]} {
		if s := l.verbs[word]; s != 0 && base(word) && !strings.HasSuffix(word, "s") {
			return s
		}
	}
	return 0
}

// description returns the classes of the first word of a description.
func (l *lexicon) description(text string) Set {
	const enough = 200 // bytes
	for _, word := range tokens(text[:min(len(text), enough)]) {
		if s := l.verbs[word]; s != 0 && !before()[word] {
			return s
		}
		if !before()[word] {
			return 0
		}
	}
	return 0
}

// tokens returns the words of a text in lower case, identifiers split where their case
// changes.
func tokens(text string) (all []string) {
	start := -1
	var last rune
	for i, r := range text {
		inside := unicode.IsLetter(r) || start >= 0 && (r == '\'' || r == '’' || unicode.IsDigit(r))
		if start >= 0 && (!inside || unicode.IsUpper(r) && unicode.IsLower(last)) {
			all = append(all, strings.ToLower(text[start:i]))
			start = -1
		}
		if inside && start < 0 {
			start = i
		}
		last = r
	}
	if start >= 0 {
		all = append(all, strings.ToLower(text[start:]))
	}
	return all
}

// split cuts a text where a step may end.
func split(text string) (parts []string) {
	start := 0
	for i, r := range text {
		ends := strings.ContainsRune("\n•;。！？；，", r)
		if strings.ContainsRune(".,!?:", r) {
			ends = i+1 < len(text) && text[i+1] == ' '
		}
		if ends {
			parts = append(parts, text[start:i])
			start = i + len(string(r))
		}
	}
	return append(parts, text[start:])
}
