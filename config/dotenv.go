package config

import (
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// assignment is the beginning of a line, up to its value.
var assignment = lazy.Regexp(`^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*`)

// parseEnvFile reads KEY=VALUE lines, with "export " before and # comments after.
// A value in double quotes knows \n, \r, \t, \" and \\; one in single quotes is
// literal; both may run over several lines. Nothing is expanded.
func parseEnvFile(data string) (map[string]string, error) {
	data = strings.ReplaceAll(strings.TrimPrefix(data, "\ufeff"), "\r\n", "\n")
	vars := make(map[string]string)
	number := 0 // of the line
	for rest := data; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		number++
		if blank(line) {
			rest = after
			continue
		}
		match := assignment().FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("line %d is not KEY=VALUE", number)
		}
		value := rest[len(match[0]):]
		if value == "" || (value[0] != '"' && value[0] != '\'') {
			vars[match[1]] = unquoted(line[len(match[0]):])
			rest = after
			continue
		}
		quoted, tail, ok := cutQuoted(value)
		if !ok {
			return nil, fmt.Errorf("line %d has a quote that is not closed", number)
		}
		tail, rest, _ = strings.Cut(tail, "\n")
		if !blank(tail) {
			return nil, fmt.Errorf("line %d has text behind the closing quote", number)
		}
		vars[match[1]] = quoted
		number += strings.Count(value[:len(value)-len(rest)], "\n") - 1
	}
	return vars, nil
}

// blank reports whether there is nothing on a line, or a comment.
func blank(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

// remark is the comment after a value.
var remark = lazy.Regexp(`(?:^|[ \t])#.*`)

// unquoted is a value without its comment.
func unquoted(value string) string { return strings.TrimSpace(remark().ReplaceAllString(value, "")) }

// cutQuoted takes the value in quotes from the front of s.
func cutQuoted(s string) (value, tail string, ok bool) {
	if s[0] == '\'' {
		return strings.Cut(s[1:], "'")
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return unescape.Replace(s[1:i]), s[i+1:], true
		}
	}
	return "", "", false
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\t`, "\t")
