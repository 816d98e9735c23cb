package config

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/reference"
)

// reports are the problems of the files.
type reports struct {
	env      environment
	source   source
	name     string    // of the entry that is decoded now; "" outside of entries
	effect   string    // of a mistake here, such as "this token lets no client in"; "" if it refuses the files
	refused  *Problem  // why the files are not used
	problems []Problem // the first maxProblems errors and maxWarnings warnings
	mistakes int       // how many errors there are
	warnings int       // how many warnings there are
	fatal    []string  // the mistakes in the entry
	looks    int       // how many mistakes of the system there are
}

// An expander reads strings with variables and references to secrets.
type expander struct {
	reports
	patterns int                // bytes of regular expressions
	envFiles map[string]envFile // that were read, by their paths

	// Of the entry that is decoded now:
	envFile    string                // the path of its envFile, "" without one
	missing    variables             // that are not set
	variables  []string              // that were looked up in the environment
	missingAt  int                   // place of the first of these
	referable  bool                  // the value that is decoded may refer to secrets
	references []reference.Reference // that it has
	secrets    []mention             // stored ones that it refers to
}

// A checker reports mistakes about keys.
type checker struct {
	expander
	level   string                  // where in the file the decoded object stands, as in levels
	last    map[string]sourceMember // the last members of "metarouter", by their levels
	strange int                     // how many unknown keys were compared with the known ones
}

// A decoder turns syntax trees into values. A value that does not fit becomes a Problem,
// and its destination stays as it was.
type decoder struct {
	checker
	profiles map[string]sourceMember // the members of profiles without mistakes, by their names

	// Of the classification that is decoded now:
	mentions   []mention       // of categories
	categories map[string]bool // by their names
}

// A sourceMember is a member of an object in a source. In the zero value, the source has no path.
type sourceMember struct {
	source source
	member hujson.ObjectMember
}

// at has the decoder report problems at the last member of a level, and returns its place.
func (d *checker) at(level string) int {
	d.source, d.name = d.last[level].source, "" // no server
	return d.last[level].member.Name.StartOffset
}

// elements returns the elements of the member's array. Another value has no elements.
func (s sourceMember) elements() []hujson.Value {
	if a, ok := s.member.Value.Value.(*hujson.Array); ok {
		return a.Elements
	}
	return nil
}

// inner returns the member under a key of the member's object.
func (s sourceMember) inner(key string) sourceMember {
	if o, ok := s.member.Value.Value.(*hujson.Object); ok {
		s.member, _ = jsonc.Member(o, key)
		return s
	}
	return sourceMember{}
}

const (
	maxProblems = 100  // errors that are kept of all files
	maxWarnings = 50   // warnings that are kept of all files
	maxFatal    = 10   // reasons that are kept why one server can't be started
	maxStrange  = 1000 // unknown keys that are compared with the known ones; more of them are mistakes
	maxQuoted   = 300  // bytes of a word of the file in a message
)

// mistake reports an error, which is never without effect: it switches off the entry, the profile, the token,
// the issuer or the certificate that is decoded now. Anywhere else it refuses the files.
func (d *reports) mistake(offset int, format string, args ...any) {
	text := message(format, args...)
	if d.effect != "" && d.name == "" {
		mistake, fix := prose.Advice(text)
		text = prose.Clauses(mistake+", so "+d.effect, fix)
	}
	if d.mistakes++; d.mistakes <= maxProblems {
		d.report(severityError, offset, "%s", paste(text))
	}
	if d.effect != "" && len(d.fatal) < maxFatal {
		d.fatal = append(d.fatal, text)
	} else if d.effect == "" && d.refused == nil {
		p := d.source.problem(offset, "%s", paste(text))
		d.refused = &p
	}
}

// refuse reports a mistake that refuses the files wherever it stands: it may have been meant for all clients.
func (d *reports) refuse(offset int, format string, args ...any) {
	name, effect := d.name, d.effect
	d.name, d.effect = "", ""
	d.mistake(offset, format, args...)
	d.name, d.effect = name, effect
}

// within decodes a thing that a mistake in it switches off, and reports whether it is without mistakes.
func (d *reports) within(effect string, decode func()) bool {
	before, around := d.mistakes, d.effect
	d.effect = effect
	decode()
	d.effect = around
	return d.mistakes == before
}

// warn reports a value that has no effect, or is probably not intended.
func (d *reports) warn(offset int, format string, args ...any) {
	if d.warnings++; d.warnings <= maxWarnings {
		d.report(severityWarning, offset, format, args...)
	}
}

func (d *reports) report(severity string, offset int, format string, args ...any) {
	p := d.source.problem(offset, format, args...)
	p.Severity, p.Server = severity, d.name
	d.problems = append(d.problems, p)
}

// message is the text of a problem. Long words of the file are cut.
func message(format string, args ...any) string {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = short(arg)
		case error:
			args[i] = short(arg.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

func short(word string) string { return prose.Cut(word, maxQuoted) }

// object decodes the members of o. A key that is not known is reported, unless another client knows it.
func (d *decoder) object(o *hujson.Object, known fields) {
	seen := make(map[string]bool)
	at := d.level
	defer func() { d.level = at }()
	for _, m := range o.Members {
		key := jsonc.Key(m)
		if seen[key] {
			d.mistake(m.Name.StartOffset, "%q is here twice; remove one", key)
		}
		seen[key] = true
		set, ok := known[key]
		switch {
		case !ok:
			d.unknown(m, known)
		case m.Value.Value.Kind() != 'n':
			d.level = keys.Below(at, key)
			if strings.HasPrefix(d.level, atRouter) {
				d.last[d.level] = sourceMember{d.source, m}
			}
			set(m)
			d.level = at
		case at != atOAuth && (at != atEntry || !keys.MayBeNull(key)):
			d.mistake(m.Name.StartOffset, "%q must not be null; remove it, or write its value", key)
		}
	}
}
