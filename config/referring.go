package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A secretText is a text of "http" with references to secrets. The zero value refers to no secret.
type secretText struct {
	text       string
	references []reference.Reference
}

// referring calls read, which reads a text, and returns the text with its references to secrets. The text itself is
// then empty, so that it is not taken for the secret.
func referring(d *decoder, at int, text *string, read func()) (s secretText) {
	before := d.references
	d.references = nil
	read()
	s.references, d.references = d.references, before
	if len(s.references) == 0 {
		return secretText{}
	}
	for _, one := range s.references {
		if one.Personal() {
			d.mistake(at, `%s works only in "headers" of a remote server, which each user's requests have; write ${keyring:NAME}`, short(one.Text))
		}
		if one.Kind == reference.Keyring && !d.env.hasSecrets { // else WithSecrets has reported it
			d.examineSecret(at, one.Body)
		}
	}
	s.text, *text = *text, ""
	return s
}

// WithSecrets returns the configuration with the secrets of the tokens and issuers of "http", which valueOf returns for
// a text with references. A token or an issuer without its secret lets no client in, and a problem says why.
func (c Config) WithSecrets(valueOf func(text string, references []reference.Reference) (string, error)) Config {
	h := &c.Router.HTTP
	c.env.hasSecrets = true
	h.Tokens, h.Issuers, c.Problems = slices.Clone(h.Tokens), slices.Clone(h.Issuers), slices.Clone(c.Problems)
	problem := func(effect, of string, why error) {
		c.Problems = append(c.Problems, Problem{
			File: strings.Join(c.Files, ", "), Severity: severityError,
			Message: fmt.Sprintf("%s: the secret of %s can't be read: %v; correct it, then send the router SIGHUP or restart it", effect, of, why),
		})
	}
	for n := range h.Tokens {
		t := &h.Tokens[n]
		if t.Secret.text == "" {
			continue
		}
		value, err := valueOf(t.Secret.text, t.Secret.references)
		hash, text, ok := secret.ParseToken(value)
		switch {
		case err != nil:
		case !ok || value == "" || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
			err = errors.New(`its value must be one token, or "sha256:" and 64 hexadecimal digits`)
		case slices.ContainsFunc(h.Tokens, func(other Token) bool { return other.Hash == hash }):
			err = errors.New("its value is another token's, too")
		}
		name := cmp.Or(t.Name, short(t.Secret.references[0].Text))
		if t.Hash, t.Text, t.Secret = hash, text, (secretText{}); err != nil {
			problem(noToken, fmt.Sprintf("the token %q", name), err)
			*t = Token{}
		}
	}
	for n := range h.Issuers {
		i := &h.Issuers[n]
		if i.Secret.text == "" {
			continue
		}
		value, err := valueOf(i.Secret.text, i.Secret.references)
		if err == nil && (strings.TrimSpace(value) == "" || strings.ContainsFunc(value, unicode.IsControl)) {
			err = errors.New("its value must be one line of text")
		}
		if i.ClientSecret, i.Secret = value, (secretText{}); err != nil {
			problem(noIssuer, i.URL, err)
			*i = Issuer{}
		}
	}
	return c
}
