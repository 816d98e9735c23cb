package bearer

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	jose "github.com/go-jose/go-jose/v4/jwt"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const maxScopes = 200

// A Token is the content of a valid token. It is shared and must not be modified.
type Token struct {
	Issuer  string // its URL
	Claims  map[string]json.RawMessage
	Scopes  []string  // of "scope" and "scp"
	Expires time.Time // of a token that the issuer was asked about and that names no end: one minute after that
}

// Values returns the texts of a claim: of a string, a number, a boolean, or an array of these.
// A name with dots ("realm_access.roles") leads into objects, unless there is a claim of the
// whole name; the names in these objects may have dots, too. A text that is not Unicode is left
// out, since it may equal another one.
func (t *Token) Values(claim string) []string {
	raw, ok := lookUp(t.Claims, claim)
	if !ok {
		return nil
	}
	v, err := wire.Decode(raw)
	if err != nil {
		return nil
	}
	elements, ok := v.([]any)
	if !ok {
		elements = []any{v}
	}
	var all []string
	for _, e := range elements {
		switch e := e.(type) {
		case string:
			if !strings.ContainsRune(e, utf8.RuneError) {
				all = append(all, e)
			}
		case json.Number:
			all = append(all, e.String())
		case bool:
			all = append(all, strconv.FormatBool(e))
		}
	}
	return all
}

// lookUp returns the member of an object that the name leads to.
func lookUp(object map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	if raw, ok := object[name]; ok {
		return raw, true
	}
	for i := strings.LastIndexByte(name, '.'); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		outer, ok := object[name[:i]]
		var inner map[string]json.RawMessage
		if !ok || json.Unmarshal(outer, &inner) != nil {
			continue
		}
		if raw, ok := lookUp(inner, name[i+1:]); ok {
			return raw, true
		}
	}
	return nil, false
}

// scopesOf returns the scopes of the claims, each once.
func scopesOf(claims map[string]json.RawMessage) ([]string, error) {
	scopes := []string{}
	for _, name := range []string{"scope", "scp"} {
		all, err := textsOf(claims[name])
		if err != nil {
			return nil, invalid("its claim %s is not text", name)
		}
		for _, text := range all {
			for _, scope := range strings.Fields(text) {
				if slices.Contains(scopes, scope) {
					continue
				}
				if scopes = append(scopes, scope); len(scopes) > maxScopes {
					return nil, invalid("it has more than %d scopes", maxScopes)
				}
			}
		}
	}
	return scopes, nil
}

// textsOf returns a claim that is a text or an array of texts; nil if it is missing or null.
func textsOf(raw json.RawMessage) (all jose.Audience, err error) {
	if !isNull(raw) {
		err = json.Unmarshal(raw, &all)
	}
	return all, err
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
