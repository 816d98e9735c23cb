package script

import (
	_ "embed"
	"regexp"
	"strconv"
	"strings"
)

// types is a function that strips type annotations; tools/quickjs/types.mjs is its source.
//
//go:embed types.js
var types string

// A source is a script's code as it is compiled: an async function.
type source struct {
	before, code, after string // the lines of code, which has no fence, are the model's
	callable            bool   // a function that it returns is called with the input
}

var (
	stackPlace = regexp.MustCompile(`\b` + codeName + `:(\d+):(\d+)`)
	fence      = regexp.MustCompile("^[ \t\r\n\ufeff]*```.*\n")
	export     = regexp.MustCompile(`(?m)^([ \t]*)export([ \t]+)default\b`)
)

// unfenced takes a code fence off, and keeps the numbers of lines.
func unfenced(code string) string {
	first := fence.FindString(code)
	if first == "" {
		return strings.TrimPrefix(code, "\ufeff")
	}
	text := strings.TrimRight(code[len(first):], " \t\r\n")
	return strings.Repeat("\n", strings.Count(first, "\n")) + strings.TrimSuffix(text, "```")
}

// place returns the first line and column of the script in a stack trace; 0 without one.
func (s *source) place(stack string) (line, column int) {
	found := stackPlace.FindStringSubmatch(stack)
	if found == nil {
		return 0, 0
	}
	line, _ = strconv.Atoi(found[1])
	column, _ = strconv.Atoi(found[2])
	if line == 1 {
		column = max(column-len(s.before), 1)
	}
	if last := strings.Count(s.code, "\n") + 1; line > last {
		line, column = last, len(s.code)-strings.LastIndexByte(s.code, '\n')
	}
	return line, column
}

// compile makes a function of the script. It strips type annotations only of code that does not compile with them.
func (r *run) compile() (function uint64) {
	code := unfenced(r.script.Code)
	forms := []source{ // an expression, such as a function; the body of a function
		{"(async () => {return (", strings.TrimRight(code, "; \t\r\n"), "\n)})", true},
		{"(async () => {", code, "\n})", false},
	}
	if export.MatchString(code) {
		forms = append(forms, source{"(async () => {", export.ReplaceAllString(code, "${1}return${2}       "), "\n})", true})
	}
	var reason *Error
	for _, strip := range []func(string) string{func(text string) string { return text }, r.stripped} {
		for _, s := range forms {
			r.source = s
			err := r.vm.catch(func() { function = r.vm.evaluate(strip(s.before+s.code+s.after), codeName) })
			if err == nil {
				return function
			}
			e := r.exception(err)
			if e.Name == "TypeScriptError" { // of types.mjs, which has read all of the script
				e.Name = "SyntaxError"
				panic(failure{e})
			}
			if reason == nil || e.Line > reason.Line || e.Line == reason.Line && e.Column > reason.Column {
				reason = e
			}
		}
	}
	if lines := strings.Split(code, "\n"); strings.HasPrefix(strings.TrimSpace(lines[max(reason.Line-1, 0)]), "import") {
		reason.Message += noModules
	}
	panic(failure{reason})
}

// stripped replaces type annotations by spaces.
func (r *run) stripped(text string) string {
	if r.strip == 0 {
		r.strip = r.vm.evaluate(types, "types")
	}
	return r.vm.text(r.vm.invoke(r.strip, r.vm.string(text)), maxHost)
}
