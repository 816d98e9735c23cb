package script

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// A parser reads the part of TypeScript that declarations have.
type parser struct{ rest string }

// parse returns an error for a text that is not a declaration of call.
func parse(text string) (err error) {
	p := &parser{text}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v before %.60q", r, p.rest)
		}
	}()
	p.want("declare")
	p.want("function")
	p.want("call")
	p.want("(")
	p.want("tool")
	p.want(":")
	if t := p.next(); t[0] != '"' {
		panic("no tool")
	}
	p.want(",")
	p.want("args")
	p.has("?")
	p.want(":")
	p.typ()
	p.want(")")
	p.want(":")
	p.typ()
	p.want(";")
	if p.space(); p.rest != "" {
		panic("there is more")
	}
	return nil
}

var token = regexp.MustCompile(`^(?:"(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9.eE+-]*|[A-Za-z_$][\w$]*|\.\.\.|[{}()\[\]<>:;,?|&])`)

// space skips comments too.
func (p *parser) space() {
	for {
		p.rest = strings.TrimLeft(p.rest, " \n\t")
		if !strings.HasPrefix(p.rest, "/*") {
			return
		}
		_, after, ok := strings.Cut(p.rest[2:], "*/")
		if !ok {
			panic("a comment has no end")
		}
		p.rest = after
	}
}

func (p *parser) peek() string {
	p.space()
	return token.FindString(p.rest)
}

func (p *parser) next() string {
	t := p.peek()
	if t == "" {
		panic("no token")
	}
	if t[0] == '"' && !json.Valid([]byte(t)) {
		panic("no string")
	}
	p.rest = p.rest[len(t):]
	return t
}

func (p *parser) has(t string) bool {
	if p.peek() != t {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(t string) {
	if !p.has(t) {
		panic("no " + t)
	}
}

func (p *parser) typ() {
	for {
		p.one()
		for p.has("[") {
			p.want("]")
		}
		if !p.has("|") && !p.has("&") {
			return
		}
	}
}

func (p *parser) list(end string, one func()) {
	for !p.has(end) {
		one()
		if !p.has(",") && !p.has(";") && p.peek() != end {
			panic("no " + end)
		}
	}
}

// one reads a type without operators.
func (p *parser) one() {
	switch t := p.next(); {
	case t == "{":
		p.list("}", p.member)
	case t == "[":
		p.list("]", func() { p.has("..."); p.typ() })
	case t == "(":
		p.typ()
		p.want(")")
	case t == "Promise":
		p.want("<")
		p.typ()
		p.want(">")
	case t == "Record":
		p.want("<")
		p.want("string")
		p.want(",")
		p.typ()
		p.want(">")
	case regexp.MustCompile(`^(["\d-].*|any|string|number|boolean|null|true|false)$`).MatchString(t):
	default:
		panic("the type " + t + " is unknown")
	}
}

func (p *parser) member() {
	if p.has("[") {
		p.want("name")
		p.want(":")
		p.want("string")
		p.want("]")
	} else if t := p.next(); !regexp.MustCompile(`^["A-Za-z_$]`).MatchString(t) {
		panic("no name")
	}
	p.has("?")
	p.want(":")
	p.typ()
}
