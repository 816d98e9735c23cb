package config

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// DefaultClassification returns the defaults of all keys.
func DefaultClassification() *Classification {
	c := defaults[Classification](atClassification)
	return &c
}

const atClassification = atRouter + ".classification"

// A mention is a place that names a category.
type mention struct {
	offset    int
	key, name string
}

// decode decodes on top of the value of earlier files.
func (c *Classification) decode(d *decoder, at int, v hujson.Value) error {
	d.mentions, d.categories = nil, make(map[string]bool)
	d.objectAt(at, v, d.keys(c, nil))
	if len(c.Categories) == 0 {
		return nil // the capability tags serve, which are not known yet
	}
	names := map[string]bool{"": true}
	for _, k := range c.Categories {
		names[k.Name] = true
	}
	for _, said := range d.mentions {
		if !names[said.name] {
			d.mistake(said.offset, "%q is %q, which is not a category; write the name of one", said.key, said.name)
		}
	}
	return nil
}

func (k *Category) decode(d *decoder, at int, v hujson.Value) error {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		d.mistake(at, `the category must be an object; write {"name": "…"}`)
		return nil
	}
	d.object(o, d.keys(k, nil))
	switch m, ok := jsonc.Member(o, "name"); {
	case !ok:
		d.mistake(at, `the category needs a name; write "name": "…"`)
	case d.categories[k.Name]:
		d.mistake(m.Name.StartOffset, "there is a category %q already; rename or remove one", k.Name)
	}
	d.categories[k.Name] = true
	return nil
}

func (r *Rule) decode(d *decoder, at int, v hujson.Value) error {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		d.mistake(at, `the rule must be an object; write {"min_words": 100, "model": "…"}`)
		return nil
	}
	d.object(o, d.keys(r, nil))
	switch {
	case r.Model == "" && r.UseReasoning == nil:
		d.mistake(at, `the rule sets nothing; write "model": "…" or "use_reasoning": true`)
	case r.MaxWords > 0 && r.MinWords > r.MaxWords:
		d.mistake(at, `the rule never applies; write a "min_words" that is not above "max_words"`)
	}
	return nil
}

// maxPatterns is the most bytes of all regular expressions together: compiling them takes
// up to 0.2 ms a byte.
const maxPatterns = 64 << 10

// checkRegexp says why a text is no regular expression. The text of a file is not compiled before the
// file is trusted, since a short expression may take long.
func (d *expander) checkRegexp(s string) error {
	if d.env.asWritten {
		return nil
	}
	if d.patterns += len(s); d.patterns > maxPatterns {
		return fmt.Errorf("is one regular expression too many: all together have at most %d KiB", maxPatterns>>10)
	}
	_, bad := regexp.Compile(s)
	if bad == nil {
		return nil
	}
	why := bad.Error()
	if syntax, ok := errors.AsType[*syntax.Error](bad); ok {
		why = syntax.Code.String()
	}
	return fmt.Errorf(`must be a regular expression (%s); close every bracket, and write \\ before a character that is meant literally`, why)
}
