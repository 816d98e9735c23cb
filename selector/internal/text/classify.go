package text

import (
	"path"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// classify returns the literal that a token without spaces is, if it is one.
func (r *reader) classify(token string) (v value, ok bool) {
	if all(token, unicode.IsLetter) && !strings.EqualFold(token, "localhost") {
		return value{}, false
	}
	for _, read := range [...]func(token string) (value, bool){
		readURL, readAddress, readVariable, r.readHash, readHost, readNumber, readID, readSelector, readPath, readCall,
	} {
		if v, ok = read(token); ok {
			return v, true
		}
	}
	return value{}, false
}

// readURL reads https://example.com/a.csv, www.example.com and localhost:3000/a.
func readURL(token string) (value, bool) {
	scheme, rest, ok := strings.Cut(token, "://")
	switch {
	case ok && (scheme == "" || !all(scheme, isIdent)):
		return value{}, false
	case !ok:
		host, _, slash := strings.Cut(token, "/")
		if _, isHost := readHost(host); !isHost || !slash && !strings.HasPrefix(token, "www.") {
			return value{}, false
		}
		rest = token
	}
	rest, _, _ = strings.Cut(rest, "?")
	host, file, _ := strings.Cut(rest, "/")
	return value{kind: analysis.URLType, extension: extension(file), optional: hostName(host)}, true
}

// readAddress reads ann@example.com, git@github.com:a/b.git, @ann and @scope/package.
func readAddress(token string) (value, bool) {
	user, host, ok := strings.Cut(token, "@")
	if !ok {
		return value{}, false
	}
	_, isHost := readHost(host)
	name, _, isRepository := strings.Cut(host, ":")
	switch {
	case user == "" && strings.Contains(host, "/"):
		return value{kind: analysis.NameType, optional: host}, host[0] != '/'
	case user == "":
		return value{kind: analysis.UserType}, host != "" && all(host, isIdent)
	case isHost:
		return value{kind: analysis.EmailType}, true
	case isRepository && strings.Contains(host, "/"):
		return value{kind: analysis.URLType, optional: hostName(name)}, true
	}
	return value{}, false
}

// readVariable reads $HOME, ${HOME}, %HOME% and NODE_ENV.
func readVariable(token string) (value, bool) {
	v := value{kind: analysis.VariableType}
	if name, ok := strings.CutPrefix(token, "$"); ok {
		name = strings.Trim(name, "{}")
		return v, name != "" && unicode.IsLetter(rune(name[0])) && all(name, isIdent)
	}
	if name := strings.Trim(token, "%"); len(name) > 1 && len(token) == len(name)+2 {
		return v, all(name, isIdent)
	}
	v.optional = token
	return v, strings.Contains(token, "_") && token == strings.ToUpper(token) && all(token, isIdent) && !all(token, isDigit)
}

// readHash reads #12, #general and #login.
func (r *reader) readHash(token string) (value, bool) {
	name, ok := strings.CutPrefix(token, "#")
	switch {
	case !ok || name == "":
		return value{}, false
	case all(name, isDigit):
		return value{kind: analysis.IDType}, true
	case !all(name, isIdent):
		return value{kind: analysis.SelectorType}, strings.ContainsAny(name, ".>[: ")
	case r.selects:
		return value{kind: analysis.SelectorType}, true
	}
	return value{kind: analysis.ChannelType}, true
}

// readNumber reads 3, -1,000.5, 40%, $20 and 5km. Its unit stays a word. After a word such
// as "issue" it is an ID.
func readNumber(token string) (value, bool) {
	number := strings.TrimLeft(token, "+-$€£¥~≈")
	digits := strings.TrimLeftFunc(number, func(c rune) bool { return isDigit(c) || strings.ContainsRune(".,/:x×-–", c) })
	if number == "" || !isDigit(rune(number[0])) {
		return value{}, false
	}
	switch unit := strings.ToLower(digits); {
	case unit == "" || strings.Trim(unit, "%€$£°") == "":
		return value{kind: analysis.NumberType}, true
	case unit == "st", unit == "nd", unit == "rd", unit == "th":
		return value{kind: analysis.NumberType}, true
	case isA("UNITS", unit):
		return value{kind: analysis.NumberType, unit: unit}, true
	}
	return value{}, false
}

func isNumber(token string) bool {
	_, ok := readNumber(token)
	return ok
}

// readID reads ACME-142, a UUID, a SHA and IDs like cus_9s6XKzkNRiz8i3.
func readID(token string) (value, bool) {
	const (
		leastSHA    = 7
		leastRandom = 10
	)
	digits, letters, others := 0, 0, 0
	hex := true
	for _, c := range token {
		switch {
		case isDigit(c):
			digits++
		case c < unicode.MaxASCII && unicode.IsLetter(c):
			letters++
			hex = hex && strings.ContainsRune("abcdefABCDEF", c)
		case c == '-' || c == '_':
			others++
		default:
			return value{}, false
		}
	}
	v := value{kind: analysis.IDType}
	prefix, number, ok := strings.Cut(token, "-")
	switch {
	case digits == 0 || letters == 0:
		return v, false
	case hex && letters+digits >= leastSHA && (others == 0 || others == 4 && len(token) == 36):
		return v, true
	case ok && len(prefix) > 1 && prefix == strings.ToUpper(prefix) && isDigit(rune((number + "x")[0])) && !isA("NORMS", prefix):
		v.optional = prefix
		return v, true
	}
	return v, digits >= 3 && letters+digits >= leastRandom
}

// readSelector reads button.submit, input[name=q], .card and //div[@id].
func readSelector(token string) (value, bool) {
	v := value{kind: analysis.SelectorType}
	element := token
	if n := strings.IndexAny(token, ".#[:"); n >= 0 {
		element = token[:n]
	}
	switch {
	case strings.HasPrefix(token, "//"):
		return v, strings.ContainsAny(token, "[@")
	case strings.HasPrefix(token, "["):
		return v, strings.Contains(token, "=") && strings.HasSuffix(token, "]")
	case element == "" && token[0] == '.':
		return v, len(token) > 1 && all(token[1:], isIdent) && token == strings.ToLower(token) && !isA("EXTENSIONS", token[1:]) && token[1] != '.'
	case element == token || !isA("ELEMENTS", element):
		return v, false
	}
	return v, !isA("EXTENSIONS", token[len(element)+1:])
}

// readHost reads example.com, localhost:3000, 10.0.0.1 and ::1.
func readHost(token string) (value, bool) {
	v := value{kind: analysis.HostType}
	if strings.Count(token, ":") > 1 {
		return v, all(token, func(c rune) bool { return c == ':' || strings.ContainsRune("0123456789abcdefABCDEF", c) })
	}
	host, port, ok := strings.Cut(token, ":")
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case ok && (port == "" || !all(port, isDigit)) || isA("PRODUCTS", host):
		return v, false
	case strings.EqualFold(host, "localhost"):
		return v, true
	case len(labels) < 2 || !all(strings.ReplaceAll(host, ".", ""), isIdent) || labels[0] == "":
		return v, false
	case len(labels) == 4 && all(strings.ReplaceAll(host, ".", ""), isDigit):
		return v, true
	case !isA("DOMAINS", last) || len(labels) == 2 && isA("EXTENSIONS", last):
		return v, false
	}
	v.optional = hostName(host)
	return v, true
}

// hostName returns the name of a host: "github" of api.github.com.
func hostName(host string) string {
	host, _, _ = strings.Cut(host[strings.LastIndexByte(host, '@')+1:], ":")
	labels := strings.Split(host, ".")
	n := len(labels) - 2
	if n > 0 && len(labels[n]) <= 3 && len(labels[n+1]) == 2 { // co.uk
		n--
	}
	if n < 0 || labels[n] == "example" || labels[n] == "test" || strings.ContainsFunc(labels[n], isDigit) {
		return ""
	}
	return labels[n]
}

// readPath reads /tmp/a.csv, ~/a, C:\a, src/main.go, a.csv, .csv and acme/api.
func readPath(token string) (value, bool) {
	v := value{kind: analysis.PathType, extension: extension(strings.ReplaceAll(token, `\`, "/"))}
	first, rest, slash := strings.Cut(token, "/")
	switch {
	case len(token) > 2 && token[1] == ':' && token[2] == '\\' || strings.HasPrefix(token, `\\`):
		return v, true
	case first == "" || first == "~" || first == "." || first == "..":
		return v, slash && len(token) > 1 || token == "~" || token == ".."
	case v.extension != "":
		return v, !isA("PRODUCTS", token)
	case !slash || !all(token, isPathLetter):
		return v, false
	case strings.HasSuffix(token, "/") && rest == "":
		return v, true
	}
	plain := true // all parts are words that a sentence may join by a slash
	for part := range strings.SplitSeq(token, "/") {
		plain = plain && (len(part) < 2 || part == strings.ToUpper(part) || isCommon(part))
	}
	if all(first, unicode.IsLetter) && all(rest, unicode.IsLetter) {
		v.optional = first + " " + rest
	}
	return v, !plain
}

// extension returns the end of a file name, if it is known, without its dot.
func extension(file string) string {
	end := path.Ext(strings.TrimSuffix(file, "/"))
	if len(end) > 1 && isA("EXTENSIONS", end[1:]) {
		return strings.ToLower(end[1:])
	}
	return ""
}

// readCall reads parse(a).
func readCall(token string) (value, bool) {
	name, rest, ok := strings.Cut(token, "(")
	if !ok || !strings.HasSuffix(rest, ")") || name == "" || !all(name, func(c rune) bool { return isIdent(c) || c == '.' }) {
		return value{}, false
	}
	return value{kind: analysis.CodeType, optional: name}, true
}

func all(s string, is func(rune) bool) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
}

func isDigit(c rune) bool { return c >= '0' && c <= '9' }

func isIdent(c rune) bool { return c == '_' || c == '-' || unicode.IsLetter(c) || unicode.IsDigit(c) }

func isPathLetter(c rune) bool { return c == '/' || c == '.' || c == '@' || isIdent(c) }
