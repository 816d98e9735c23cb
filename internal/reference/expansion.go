package reference

import (
	"strings"
)

// Rules give the values of the parts of a text between ${ and }.
type Rules struct {
	Lookup  func(name string) (value string, ok bool) // the value of a variable
	Unset   func(name string)                         // is called with each variable without a value and a default
	Refer   func(text string)                         // is called with each reference to a secret, without ${ and }
	Endless func(text string)                         // is called with each one that is not closed, and all that follows its ${
}

// Expand replaces ${VAR}, ${env:VAR} and ${VAR:-default} in s. As in Claude
// Code, a variable that is set to nothing is set, and $VAR is plain text. A
// default may hold references. Parts without a value stay, and so do references to secrets.
func (r Rules) Expand(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	e := writer{Rules: r, text: s, ends: closings(s)}
	e.write(0, len(s), 0)
	return e.out.String()
}

// A writer takes time in proportion to its text, however references are nested.
type writer struct {
	Rules
	text string
	ends []int32 // at the place of each ${, the place of the } that belongs to it, or 0
	out  strings.Builder
}

// maxNesting is how many defaults may be inside each other. Deeper ones stay as they are.
const maxNesting = 100

// write writes the text from a place to another one. depth counts the defaults around it.
func (e *writer) write(from, to, depth int) {
	for {
		before := strings.Index(e.text[from:to], "${")
		if before < 0 {
			e.out.WriteString(e.text[from:to])
			return
		}
		e.out.WriteString(e.text[from : from+before])
		from += before
		end := int(e.ends[from])
		name, after, ok := variable(e.text[from+2 : max(from+2, end)])
		value, isSet := "", false
		if ok {
			value, isSet = e.Lookup(name)
		}
		switch hasDefault := ok && after != ""; {
		case isSet:
			e.out.WriteString(value)
		case hasDefault && depth < maxNesting:
			e.write(end-len(after)+len(":-"), end, depth+1)
		case ok && !hasDefault:
			e.Unset(name)
			e.out.WriteString(e.text[from : end+1])
		case e.isSecret(from, end):
			e.Refer(e.text[from+2 : end])
			e.out.WriteString(e.text[from : end+1])
		default: // not a reference
			e.out.WriteString("${")
			end = from + 1
		}
		from = end + 1
	}
}

// isSecret reports whether the text between the ${ at from and the } at end, 0 without
// an end, is a reference to a secret.
func (e *writer) isSecret(from, end int) bool {
	rest := e.text[from+2:]
	kind, _, ok := Cut(rest[:min(len(rest), len("keyring:"))])
	if ok && end == 0 && kind != Input {
		e.Endless(rest)
	}
	return ok && end > 0
}

// variable returns the variable's name at the begin of the text between ${ and }, and the text
// after the name, where a default may follow. Other text, such as the shell's ${x%pattern}, is not a reference.
func variable(body string) (name, after string, ok bool) {
	if body == "/" { // VS Code's separator of paths
		return body, "", true
	}
	rest := strings.TrimPrefix(body, "env:")
	if strings.HasPrefix(rest, "-") {
		rest = body // ${env:-default}, of the variable env
	}
	after = strings.TrimLeft(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
	name = rest[:len(rest)-len(after)]
	isName := name != "" && (name[0] < '0' || name[0] > '9')
	return name, after, isName && (after == "" || strings.HasPrefix(after, ":-"))
}

// closings returns, at the place of each ${, the place of the } that belongs to it, or 0.
// In a command, other braces count too.
func closings(s string) []int32 {
	const brace = -1 // an open brace that is no ${
	ends := make([]int32, len(s))
	var open []int32
	commands := 0 // how many of open are commands
	isCommand := func(at int32) bool { return at != brace && strings.HasPrefix(s[at:], "${cmd:") }
	for i := range len(s) {
		switch {
		case s[i] == '}' && len(open) > 0:
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if isCommand(at) {
				commands--
			}
			if at != brace {
				ends[at] = int32(i)
			}
		case strings.HasPrefix(s[i:], "${"):
			open = append(open, int32(i))
			if isCommand(int32(i)) {
				commands++
			}
		case s[i] == '{' && commands > 0 && s[i-1] != '$':
			open = append(open, brace)
		}
	}
	return ends
}
