package config

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

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

// classificationField decodes into to, on top of what an earlier file has set.
func classificationField(d *decoder, to **Classification) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if *to == nil {
			*to = DefaultClassification()
		}
		c := *to
		var mentions []mention
		fallback := func(m hujson.ObjectMember) {
			set(d, &c.Fallback, text)(m)
			mentions = append(mentions, mention{m.Name.StartOffset, jsonc.Key(m), c.Fallback})
		}
		known := d.keys(c, fields{
			"categories": elements(d, &c.Categories, `[{"name": "…"}]`, categoryReader(d, &mentions)),
			"rules":      rulesField(d, &c.Rules, &mentions),
			"fallback":   fallback, "fallback_category": fallback,
		})
		outside := outsideFields(d, &c.Outside, known)
		objectField(d, known)(m)
		outside(m.Name.StartOffset)
		if len(c.Categories) == 0 || c.Outside != nil {
			return // the categories are not known yet
		}
		names := map[string]bool{"": true}
		for _, k := range c.Categories {
			names[k.Name] = true
		}
		for _, said := range mentions {
			if !names[said.name] {
				d.mistake(said.offset, "%q is %q, which is not a category; write the name of one", said.key, said.name)
			}
		}
		if !names[c.Fallback] {
			c.Fallback = ""
		}
	}
}

// categoryReader returns a function that decodes one category. A category needs a name of
// its own.
func categoryReader(d *decoder, mentions *[]mention) func(*hujson.Object, int) (Category, bool) {
	names := make(map[string]bool)
	return func(o *hujson.Object, at int) (Category, bool) {
		var k Category
		d.object(o, d.keys(&k, fields{"rules": rulesField(d, &k.Rules, mentions)}))
		m, named := jsonc.Member(o, "name")
		if named = named && m.Value.Value.Kind() != 'n'; named {
			at = m.Name.StartOffset
		}
		switch {
		case !named:
			d.mistake(at, `the category needs a name; write "name": "…"`)
		case names[k.Name]:
			d.mistake(at, "there is a category %q already, and it counts; rename or remove one", k.Name)
		case k.Name != "":
			names[k.Name] = true
			return k, true
		}
		return k, false
	}
}

// rulesField decodes a list of rules. A rule with any mistake is left out: without the
// wrong part, it would apply to other texts than its author meant.
func rulesField(d *decoder, to *[]Rule, mentions *[]mention) func(hujson.ObjectMember) {
	return elements(d, to, `[{"min_words": 100, "model": "…"}]`, func(o *hujson.Object, at int) (Rule, bool) {
		var r Rule
		before := d.mistakes
		category := func(v hujson.Value) (string, error) {
			name, err := text(v)
			if err == nil {
				*mentions = append(*mentions, mention{v.StartOffset, "categories", name})
			}
			return name, err
		}
		d.object(o, d.keys(&r, fields{"categories": set(d, &r.Categories, list(category))}))
		switch {
		case d.mistakes > before:
			return r, false
		case r.Model == "" && r.UseReasoning == nil:
			d.mistake(at, `the rule sets nothing; write "model": "…" or "use_reasoning": true`)
			return r, false
		case r.MaxWords > 0 && r.MinWords > r.MaxWords:
			d.mistake(at, `the rule never applies; write a "min_words" that is not above "max_words"`)
			return r, false
		}
		return r, true
	})
}

// outsideFields adds the keys of another classification server to known. Call the function
// that it returns after the keys were decoded: it decides whether the server is used. Any
// mistake leaves it unused.
func outsideFields(d *decoder, to **Outside, known fields) func(at int) {
	outside, kind := defaults[Outside](atClassification), ""
	o := &outside
	if *to != nil {
		*o, kind = **to, "mcp"
	}
	bad := false
	d.missing = variables{}
	for key, field := range d.keys(o, fields{"type": d.to(&kind, "")}) {
		known[key] = func(m hujson.ObjectMember) {
			before := len(d.fatal)
			field(m)
			bad = bad || len(d.fatal) > before
		}
	}
	return func(at int) {
		missing := d.missing
		d.missing = variables{}
		*to = nil
		switch {
		case missing.any():
			d.mistake(d.missingAt, "the other classifier is not used: %s", missing)
		case bad: // the reason is reported already
		case kind == "" && o.Server+o.URL != "":
			d.mistake(at, `"server" and "url" are another classifier's; add "type": "mcp" to ask it, or remove them`)
		case kind == "": // the built-in classifier
		case o.Server != "" && o.URL != "":
			d.mistake(at, `the classifier has both "server" and "url"; remove one`)
		case o.Server+o.URL == "":
			d.mistake(at, `the classifier can't be reached; write "server": "…", a name of mcpServers, or "url": "https://…"`)
		default:
			*to = o
		}
	}
}

// checkAskedServer reports what is wrong with the entry that is the other classifier. The
// entry is used all the same, since an edit may correct it.
func checkAskedServer(d *decoder, c Config) {
	if c.Router.Classification == nil || c.Router.Classification.Outside == nil || c.Router.Classification.Outside.Server == "" {
		return
	}
	at := d.at(atClassification + ".server")
	name := c.Router.Classification.Outside.Server
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.Name == name })
	switch {
	case i < 0:
		d.mistake(at, `"server" is %q, which is not a server; write the name of one in "mcpServers"`, name)
	case c.Servers[i].Disabled:
		d.mistake(at, `"server" is %q, which is disabled; enable it, or name another one`, name)
	case c.Servers[i].Self:
		d.mistake(at, `"server" is %q, which would start a router; leave "type" and "server" out to use the built-in classifier`, name)
	}
}

// maxPatterns is the most bytes of all regular expressions together: compiling them takes
// up to 0.2 ms a byte.
const maxPatterns = 64 << 10

// pattern reads a regular expression as text. The text of a file is not compiled before the
// file is trusted, since a short expression may take long.
func (d *expander) pattern(v hujson.Value) (string, error) {
	s, err := text(v)
	if err != nil || d.env.asWritten {
		return s, err
	}
	if d.patterns += len(s); d.patterns > maxPatterns {
		return "", fmt.Errorf("is one regular expression too many: all together have at most %d KiB", maxPatterns>>10)
	}
	if _, bad := regexp.Compile(s); bad != nil {
		why := bad.Error()
		if syntax, ok := errors.AsType[*syntax.Error](bad); ok {
			why = syntax.Code.String()
		}
		return "", fmt.Errorf(`must be a regular expression (%s); close every bracket, and write \\ before a character that is meant literally`, why)
	}
	return s, nil
}

// elements decodes an array of objects. read decodes one object; if it returns false, it has
// reported why, and the object is left out. example is shown where a value is not an
// object.
func elements[T any](d *decoder, to *[]T, example string, read func(o *hujson.Object, at int) (T, bool)) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		a, ok := m.Value.Value.(*hujson.Array)
		if !ok {
			d.mistake(m.Name.StartOffset, "%q must be an array of objects; write %s", jsonc.Key(m), example)
			return
		}
		*to = nil
		for i, e := range a.Elements {
			o, ok := e.Value.(*hujson.Object)
			if !ok {
				d.mistake(e.StartOffset, "\"%s[%d]\" must be an object; write %s", jsonc.Key(m), i, example)
				continue
			}
			if t, ok := read(o, e.StartOffset); ok {
				*to = append(*to, t)
			}
		}
	}
}
