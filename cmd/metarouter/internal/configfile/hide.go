package configfile

import (
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// masked returns a value with its secrets hidden. before is the word before it in a
// list. Keys that start programs, and texts for models, hide nothing but values of arguments, so that
// a command can't be hidden as the value of something.
func masked(path, within, before, value string) string {
	if path == "args" || path == "command.args" {
		return showReferences(value, func(word string) string { return argument(before, word) })
	}
	return showReferences(value, func(text string) string { return hide(path, within, text) })
}

// hide hides the secrets of a value, and may hide parts of references.
func hide(path, within, value string) string {
	keys := strings.Split(path, ".")
	key := keys[len(keys)-1]
	switch env := within == "env" || strings.HasSuffix(within, ".env"); {
	case len(keys) == 3 && keys[0] == "http" && stem(keys[1]) == "tokens" && slices.Contains([]string{"name", "profile", "role"}, key):
	case len(keys) == 4 && keys[0] == "http" && keys[1] == "oauth" && key == "clientSecret":
		return literals(value)
	case len(keys) == 4 && keys[0] == "http" && keys[1] == "oauth" && (key == "url" || key == "jwksUrl"):
		return secret.URL(value, hidden)
	case len(keys) > 2 && keys[0] == "http" && (keys[1] == "oauth" || keys[1] == "certificates"): // whatever the claims and subjects are
	case slices.Contains(open, path), slices.Contains(open, keys[0]), len(keys) > 1 && slices.Contains(open, keys[0]+"."+stem(keys[1])):
	case len(keys) > 2 && keys[0] == "profiles" && keys[2] != "arguments": // whatever the profile's name is
	case env && strings.HasSuffix(strings.ToUpper(key), "ASKPASS"): // it names a program
	case env && secret.Named(key), !env && slices.ContainsFunc(keys, isSecret), key == "env", slices.ContainsFunc(keys, isListOfEnv):
		return literals(value)
	case strings.HasSuffix(strings.ToLower(key), "url"), keys[0] == "cluster" && stem(key) == "urls":
		return secret.URL(value, hidden)
	}
	return value
}

var (
	// header matches an option that takes a header.
	header = lazy.Regexp(`(?i)^-+(?:h|.*header.*)$`)

	// runs matches names that look like the name of a secret, but have a program, a file or no value,
	// so that the next word may be a program.
	runs = lazy.Regexp(`(?i)^-*(?:ask|no|always|with|enable|disable|require|skip|allow)[-_]|(?:command|cmd|helper|process|program|plugin|provider|executable|exec|script|file|path|dir)$`)

	// opaque matches a value that runs nothing: it is no path, and has no white space and no
	// sign of a shell or a programming language.
	opaque = lazy.Regexp("^(?:(?:Bearer|Basic|Digest|Token) )?[^\\s\"'`()<>|&;\\\\/.~=][^\\s\"'`()<>|&;\\\\]*$")
)

// argument hides the secret in a word of a command line: the value of an
// option, a variable or a header that is named like one. before is the word before.
func argument(before, word string) string {
	name, value := before, word
	switch {
	case header().MatchString(before) && strings.Contains(word, ":"):
		name, value, _ = strings.Cut(word, ":")
		value = strings.TrimLeft(value, " ")
	case !secret.IsOption(before) || strings.HasPrefix(word, "-"):
		name, value, _ = strings.Cut(word, "=")
	}
	shown := word[:len(word)-len(value)]
	switch {
	case shown != "" && header().MatchString(name):
		return shown + argument(name, value)
	case secret.IsOption("-"+name) && !runs().MatchString(name) && opaque().MatchString(value):
		return shown + literals(value)
	}
	return word
}

// open are the keys that hide nothing, with all below them.
var open = []string{"oauth.clientId", "oauth.callbackPort", "oauth.authServerMetadataUrl", "oauth.scopes", "oauth.keyId", "oauth.algorithm", "oauth.callbackUrl", "oauth.clientMetadataUrl", "oauth.resource", "oauth.grant", "oauth.scope", "oauth.redirectUri", "args", "cwd", "command.path", "command.args", "tools", "capabilities", "inheritEnv", "envFile", "pinned",
	"http.tlsKey", "http.tlsCert", "cluster.name", "cluster.node", "cluster.creds", "cluster.tls", "cluster.share", "cluster.use", "cluster.trusted", "classification.categories", "classification.rules", "classification.tools"}

// isSecret reports whether a key, at whatever place, is named like a secret or holds some.
func isSecret(key string) bool {
	return strings.EqualFold(stem(key), "headers") || secret.Maybe(stem(key))
}

// isListOfEnv reports whether a key belongs to an element of a list of variables.
func isListOfEnv(key string) bool { return key != "env" && stem(key) == "env" }

// stem returns a key without the index of an element.
func stem(key string) string {
	name, _, _ := strings.Cut(key, "[")
	return name
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

// showReferences masks a value, but for its references to secrets: the person also approves the
// commands and files that they name. One that is not closed goes to the end of the value.
func showReferences(value string, mask func(string) string) string {
	masked := mask(value)
	if masked == value {
		return masked
	}
	var b strings.Builder
	show := func(text string) {
		before, after, found := strings.Cut(value, text)
		if !found { // it is within one that is not closed
			return
		}
		if before != "" {
			b.WriteString(mask(before))
		}
		b.WriteString(text)
		value, mask = after, literals // the rest has not the form that mask expects
	}
	reference.Rules{
		Lookup:  func(string) (string, bool) { return "", false },
		Unset:   func(string) {},
		Refer:   func(text string) { show("${" + text + "}") },
		Endless: func(text string) { show("${" + text) },
	}.Expand(value)
	if value != "" {
		b.WriteString(mask(value))
	}
	return b.String()
}
