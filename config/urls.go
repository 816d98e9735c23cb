package config

import (
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// texts reads strings of further kinds.
type texts struct{ *expander }

// url returns the reader of a URL of a kind (see reading); nil if it is none.
func (d texts) url(kind string) reader[string] {
	switch kind {
	case "url":
		return d.checked(d.expanded, true, urls.Web)
	case "address":
		return d.checked(d.expanded, false, urls.Web)
	case "document":
		return d.checked(d.expanded, true, urls.Document)
	case "resource":
		return d.checked(d.expanded, true, urls.Resource)
	case "issuer":
		return d.checked(d.bounded(maxValue), false, urls.Issuer)
	case "jwks":
		return d.checked(d.bounded(maxValue), true, urls.Keys)
	case "redirect": // of another client; what is no whole URL is that client's matter
		return func(v hujson.Value) (string, error) {
			s, err := d.expanded(v)
			if err == nil && d.isKnown(s) && urls.Web(s) != nil {
				s = ""
			}
			return s, err
		}
	}
	return nil
}

// checked returns a reader of a text that is checked once its variables are known. optional allows "".
func (d texts) checked(read reader[string], optional bool, check func(string) error) reader[string] {
	return func(v hujson.Value) (string, error) {
		s, err := read(v)
		if err == nil && (s != "" || !optional) && d.isKnown(s) {
			err = check(s)
		}
		return s, err
	}
}

// isKnown reports whether all variables and references in a text have their values.
func (d *expander) isKnown(s string) bool {
	return !d.missing.any() && !((d.env.asWritten || len(d.references) > 0) && strings.Contains(s, "${"))
}

// maxPublicURL bounds "publicUrl", in bytes.
const maxPublicURL = 512

// publicURLField returns the function that decodes "publicUrl".
func publicURLField(d *decoder, to *string) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		set(d, to, func(v hujson.Value) (string, error) {
			s, err := d.bounded(maxPublicURL)(v)
			if err == nil && s != "" && d.isKnown(s) {
				s, err = urls.Public(s)
			}
			return s, err
		})(m)
		if urls.LeadsElsewhere(*to) {
			d.claim(m.Name.StartOffset, claim{kind: claimPublicURL, text: *to})
		}
	}
}
