package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// maxReferences is how many references to secrets one server may have.
const maxReferences = 50

// isFiles reports whether the server is the reference server for files, which replaces ~ in its arguments itself.
func isFiles(s *Server) bool {
	return slices.ContainsFunc(append([]string{s.Command}, s.Args...), func(word string) bool { return strings.Contains(word, "server-filesystem") })
}

// warnOfTexts warns of the secrets that the entry o has as text, and of paths in which only a shell replaces ~.
func (d entryDecoder) warnOfTexts(s *Server, o *hujson.Object) {
	warn := func(offset int, path, name, value string) {
		if rest, ok := strings.CutPrefix(value, "~/"); ok && !strings.HasPrefix(path, "headers") && !isFiles(s) {
			d.warn(offset, "the server gets ~ in %q as it is, since no shell replaces it; write \"${HOME}/%s\"", path, rest)
		}
		if !secret.Clear(name, value) {
			return
		}
		d.warn(offset, "%q is a secret in clear text; to move it out of the file, run: metarouter secret set %s --from %s", path, secret.StoredName(d.name, name, strings.HasPrefix(path, "headers")), commandline.Quote(d.name))
		if d.warnings <= maxWarnings {
			d.problems[len(d.problems)-1].ClearSecret = true
		}
	}
	for _, key := range []string{"command", "env", "headers", "args"} {
		m, _ := jsonc.Member(o, key)
		if in, ok := m.Value.Value.(*hujson.Object); ok && key == "command" { // in Zed's dialect
			d.warnOfTexts(s, in)
			continue
		}
		switch value := m.Value.Value.(type) {
		case *hujson.Object:
			for _, e := range value.Members {
				said, _ := keys.Text(e.Value)
				warn(e.Name.StartOffset, key+"."+jsonc.Key(e), jsonc.Key(e), said)
			}
		case *hujson.Array:
			option := "" // the argument before
			for i, e := range value.Elements {
				said, _ := keys.Text(e)
				name, word := option, said
				if before, after, joined := strings.Cut(said, "="); joined {
					name, word = before, after
				}
				warn(e.StartOffset, fmt.Sprintf("%s[%d]", key, i), name, word)
				if option = ""; strings.HasPrefix(said, "-") {
					option = said
				}
			}
		}
	}
}

// refer notes a reference to a secret by the text between ${ and }. A mistake in it is added to
// missing.
func (d *expander) refer(text string, missing *variables) {
	r, problem := d.referenceOf(text, missing)
	switch {
	case problem != "":
		addOnce(&missing.wrong, problem)
	case r.Kind == reference.Input:
		addOnce(&missing.prompts, short(r.Text))
	case slices.Contains(d.references, r):
	case len(d.references) == maxReferences:
		addOnce(&missing.wrong, fmt.Sprintf("there are references to more than %d secrets; write fewer", maxReferences))
	default:
		d.references = append(d.references, r)
	}
}

// referenceOf returns the reference, or the mistake in it. Its kind is
// [reference.Input] for a prompt that can't be stored.
func (d *expander) referenceOf(text string, missing *variables) (r reference.Reference, problem string) {
	kind, body, _ := reference.Cut(text)
	r = reference.Reference{Text: "${" + text + "}", Kind: kind, Body: body}
	if kind == reference.Input {
		if name := reference.InputName(body); slices.Contains(d.source.passwords(), body) && vault.ValidName(name) {
			r.Kind, r.Body = reference.Keyring, name
		} else {
			return r, ""
		}
	}
	if !d.referable {
		return r, fmt.Sprintf(`a reference to a secret such as %s works only in "env", "args", "headers" and "url" of a server, in "clientSecret" and "privateKey" of "oauth", and in "tokens" of "http"; write ${VAR} here`, short(r.Text))
	}
	switch r.Kind {
	case reference.Keyring:
		name, _, hasDefault := strings.Cut(r.Body, ":-")
		if hasDefault && vault.ValidName(name) {
			return r, fmt.Sprintf("a reference to a secret has no default; write ${VAR:-${keyring:%s}} to use the variable VAR first", name)
		}
		if !vault.ValidName(r.Body) {
			return r, fmt.Sprintf("%s has no valid name; use letters, digits, dots, dashes and underscores", short(r.Text))
		}
	case reference.File:
		inner := d.rules(missing)
		inner.Refer = func(string) {}
		r.Body = d.absolute(inner.Expand(body))
		if strings.TrimSpace(body) == "" {
			return r, "${file:} names no file; write ${file:PATH}"
		}
	case reference.Command:
		r.Dir = d.source.project()
		if strings.TrimSpace(body) == "" {
			return r, "${cmd:} has no command; write ${cmd:COMMAND}"
		}
		if len(body) > reference.MaxCommand {
			return r, fmt.Sprintf("a command in ${cmd:…} is longer than %d bytes; write a script and run that", reference.MaxCommand)
		}
	case reference.User, reference.Claim:
		if !vault.ValidName(r.Body) {
			return r, fmt.Sprintf("%s has no valid name; use letters, digits, dots, dashes and underscores, and no default", short(r.Text))
		}
	case reference.OnePassword:
		r.Dir = d.source.project()
	}
	return r, ""
}

// passwords returns the ids of the inputs of VS Code that are passwords.
func (s source) passwords() (ids []string) {
	inputs, _ := jsonc.Member(s.root, "inputs")
	for _, v := range (sourceMember{member: inputs}).elements() {
		input := sourceMember{member: hujson.ObjectMember{Value: v}}
		name, err := keys.Text(input.inner("id").member.Value)
		if isPassword, _ := keys.Boolean(input.inner("password").member.Value); err == nil && isPassword {
			ids = append(ids, name)
		}
	}
	return ids
}
