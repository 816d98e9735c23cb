package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"

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
	unknown         bool // Go's engine does not know one
}

// A pattern is a regular expression with a known cost.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// compile compiles a regular expression. One that Go's engine does not know, such as one with a look-ahead, matches
// everything: the server checks it.
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
		p.unknown = true
		return anything(expr), nil
	}
	size := programSize(tree)
	p.programs += size
	if p.costly = p.programs > maxPrograms; p.costly {
		return nil, errPattern
	}
	re, err := regexp.Compile(expr)
	return pattern{re, size}, err
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

// anything stands for an expression that is not known.
type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }
