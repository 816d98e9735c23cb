package config

import (
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// texts reads strings of further kinds.
type texts struct{ *expander }

// redirect reads a redirect URI of another client. What is no whole URL is that client's matter.
func (d texts) redirect(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	if err == nil && d.isKnown(s) && urls.Web(s) != nil {
		s = ""
	}
	return s, err
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
