package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The limits of the regular expressions of a schema.
const (
	maxPattern  = 8 << 10  // bytes of one
	maxPatterns = 64 << 10 // bytes of all
	maxPrograms = 100_000  // instructions and ranges of characters of all
)

var errPattern = errors.New("too large")

// patterns compiles the regular expressions of one schema.
type patterns struct {
	known           map[string]jsonschema.Regexp
	bytes, programs int
	costly          bool // they are above the limits
	unknown         bool // one is of another engine
}

// A pattern is a regular expression with a known cost.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// A backtracker is a regular expression that Go's engine does not know, such as one with a look-ahead. Its time may
// grow exponentially with the text, so each match is bounded.
type backtracker struct{ *regexp2.Regexp }

const (
	matchTimeout = 200 * time.Millisecond // of one match
	maxSlow      = 500 * time.Millisecond // of all matches by backtrackers in one validation
)

// MatchString reports whether the expression matches, and true if that takes too long: [meter.finds] knows better.
func (b backtracker) MatchString(text string) bool {
	found, err := b.Regexp.MatchString(text)
	return found || err != nil
}

// compile compiles a regular expression. An expression that no engine here knows matches everything: the server checks
// it.
func (p *patterns) compile(expr string) (jsonschema.Regexp, error) {
	if re, ok := p.known[expr]; ok {
		return re, nil
	}
	p.bytes += len(expr)
	if p.costly = p.costly || len(expr) > maxPattern || p.bytes > maxPatterns; p.costly {
		return nil, errPattern
	}
	re, err := p.parse(expr)
	if err == nil {
		p.known[expr] = re
	}
	return re, err
}

func (p *patterns) parse(expr string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return p.other(expr), nil
	}
	size := programSize(tree)
	p.programs += size
	if p.costly = p.programs > maxPrograms; p.costly {
		return nil, errPattern
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return p.other(expr), nil
	}
	return pattern{re, size}, nil
}

// other compiles an expression that Go's engine does not know, as ECMAScript does.
func (p *patterns) other(expr string) jsonschema.Regexp {
	re, err := regexp2.Compile(expr, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		p.unknown = true
		return anything(expr)
	}
	re.MatchTimeout = matchTimeout
	return backtracker{re}
}

// programSize estimates the instructions of a compiled expression.
func programSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxPrograms+1)
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }
