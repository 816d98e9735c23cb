package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// DefaultClassification returns what holds where nothing is written.
func DefaultClassification() *Classification {
	return &Classification{Model: "default", Threshold: 0.6, MaxText: 8192}
}

func defaultOutside() *Outside {
	return &Outside{
		ClassifyTool:    "classify_text",
		ListTool:        "list_categories",
		Timeout:         5 * time.Second,
		MaxRetries:      3,
		CacheCategories: true,
		RefreshInterval: 5 * time.Minute,
	}
}

// A mention is where a category is called by its name.
type mention struct {
	offset    int
	key, name string
}

// classification is the field that reads into to, over what an earlier file said.
func (d *decoder) classification(to **Classification) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if *to == nil {
			*to = DefaultClassification()
		}
		c := *to
		var mentions []mention
		fallback := func(m hujson.ObjectMember) {
			set(d, &c.Fallback, text)(m)
			mentions = append(mentions, mention{m.Name.StartOffset, keyOf(m), c.Fallback})
		}
		known := fields{
			"categories": elements(d, &c.Categories, `[{"name": "…"}]`, d.category(&mentions)),
			"rules":      d.rules(&c.Rules, &mentions),
			"model":      set(d, &c.Model, text), "use_reasoning": set(d, &c.UseReasoning, boolean),
			"threshold": set(d, &c.Threshold, fraction), "confidence_threshold": set(d, &c.Threshold, fraction),
			"fallback": fallback, "fallback_category": fallback,
			"max_text": set(d, &c.MaxText, atLeast(1)),
		}
		outside := d.outside(&c.Outside, known)
		d.in(known)(m)
		outside(m.Name.StartOffset)
		if len(c.Categories) == 0 || c.Outside != nil {
			return // who knows which there are
		}
		is := func(name string) bool {
			return name == "" || slices.ContainsFunc(c.Categories, func(k Category) bool { return k.Name == name })
		}
		for _, said := range mentions {
			if !is(said.name) {
				d.warn(said.offset, "%q is %q, which is no category; write the name of one", said.key, said.name)
			}
		}
		if !is(c.Fallback) {
			c.Fallback = ""
		}
	}
}

// category reads one of the categories. Without a name of its own it is none.
func (d *decoder) category(mentions *[]mention) func(*hujson.Object, int) (Category, bool) {
	names := make(map[string]bool)
	return func(o *hujson.Object, at int) (Category, bool) {
		var k Category
		named := false
		d.object(o, fields{
			"name": func(m hujson.ObjectMember) {
				at, named = m.Name.StartOffset, true
				set(d, &k.Name, notEmpty)(m)
			},
			"description": set(d, &k.Description, text), "system_prompt": set(d, &k.SystemPrompt, text),
			"keywords": set(d, &k.Keywords, list(text)), "examples": set(d, &k.Examples, list(text)),
			"model": set(d, &k.Model, text), "use_reasoning": set(d, &k.UseReasoning, optional(boolean)),
			"rules": d.rules(&k.Rules, mentions),
		})
		switch {
		case !named:
			d.warn(at, `the category needs a name; write "name": "…"`)
		case names[k.Name]:
			d.warn(at, "there is a category %q already, and it counts; rename or remove one", k.Name)
		case k.Name != "":
			names[k.Name] = true
			return k, true
		}
		return k, false
	}
}

// rules is the field of a list of rules. One of which anything is wrong is left
// out: without the part that is, it would apply to texts that it is not meant for.
func (d *decoder) rules(to *[]Rule, mentions *[]mention) func(hujson.ObjectMember) {
	return elements(d, to, `[{"min_words": 100, "model": "…"}]`, func(o *hujson.Object, at int) (Rule, bool) {
		var r Rule
		before := len(d.problems)
		category := func(v hujson.Value) (string, error) {
			name, err := text(v)
			if err == nil {
				*mentions = append(*mentions, mention{v.StartOffset, "categories", name})
			}
			return name, err
		}
		d.object(o, fields{
			"categories":       set(d, &r.Categories, list(category)),
			"confidence_below": set(d, &r.ConfidenceBelow, fraction),
			"min_words":        set(d, &r.MinWords, atLeast(0)), "max_words": set(d, &r.MaxWords, atLeast(0)),
			"patterns": set(d, &r.Patterns, list(pattern)),
			"model":    set(d, &r.Model, text), "use_reasoning": set(d, &r.UseReasoning, optional(boolean)),
		})
		switch {
		case len(d.problems) > before:
			return r, false
		case r.Model == "" && r.UseReasoning == nil:
			d.warn(at, `the rule sets nothing; write "model": "…" or "use_reasoning": true`)
			return r, false
		case r.MaxWords > 0 && r.MinWords > r.MaxWords:
			d.warn(at, `the rule never applies; write a "min_words" that is not above "max_words"`)
			return r, false
		}
		return r, true
	})
}

// outside adds the keys of another classification server to known. What it
// returns settles whether there is one, after they were read; as with a server,
// anything wrong leaves it unused.
func (d *decoder) outside(to **Outside, known fields) func(at int) {
	o, kind := defaultOutside(), ""
	if *to != nil {
		*o, kind = **to, "mcp"
	}
	bad := false
	d.missing = variables{}
	for key, field := range (fields{
		"type": set(d, &kind, mcp),
		"server": func(m hujson.ObjectMember) {
			d.asked = place{d.source, m.Name.StartOffset}
			set(d, &o.Server, notEmpty)(m)
		},
		"url": set(d, &o.URL, d.webURL), "headers": set(d, &o.Headers, dict(d.expanded)),
		"tools":   d.in(fields{"classify": set(d, &o.ClassifyTool, notEmpty), "list_categories": set(d, &o.ListTool, notEmpty)}),
		"timeout": set(d, &o.Timeout, duration(positive)), "max_retries": set(d, &o.MaxRetries, atLeast(0)),
		"cache_categories": set(d, &o.CacheCategories, boolean), "refresh_interval": set(d, &o.RefreshInterval, duration(positive)),
		"num_categories": set(d, &o.NumCategories, atLeast(0)),
	}) {
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
			d.warn(d.missingAt, "no other classifier is asked: %s", missing)
		case bad: // it has been said why
		case kind == "" && o.Server+o.URL != "":
			d.warn(at, `"server" and "url" are another classifier's; add "type": "mcp" to ask it, or remove them`)
		case kind == "": // the one that is built in
		case o.Server != "" && o.URL != "":
			d.warn(at, `the classifier has both "server" and "url"; remove one`)
		case o.Server+o.URL == "":
			d.warn(at, `the classifier can't be reached; write "server": "…", a name of mcpServers, or "url": "https://…"`)
		default:
			*to = o
		}
	}
}

// askedServer says what is wrong with the entry that is the other classifier. It is
// asked all the same: entries are live.
func (d *decoder) askedServer(c Config) {
	if c.Router.Classification == nil || c.Router.Classification.Outside == nil || c.Router.Classification.Outside.Server == "" {
		return
	}
	d.source, d.name = d.asked.source, ""
	name := c.Router.Classification.Outside.Server
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.Name == name })
	switch {
	case i < 0:
		d.warn(d.asked.offset, `"server" is %q, which is no server; write the name of one in "mcpServers"`, name)
	case c.Servers[i].Disabled:
		d.warn(d.asked.offset, `"server" is %q, which is disabled; enable it, or name another one`, name)
	case c.Servers[i].Self:
		d.warn(d.asked.offset, `"server" is %q, which would start a router; leave "type" and "server" out for the classifier that is built in`, name)
	}
}

func mcp(v hujson.Value) (string, error) {
	if s, err := text(v); err == nil && s == "mcp" {
		return s, nil
	}
	return "", errors.New(`must be "mcp"; leave it out for the classifier that is built in`)
}

func notEmpty(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil && strings.TrimSpace(s) == "" {
		err = errors.New("must not be empty; write a name")
	}
	return s, err
}

func (d *decoder) webURL(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	if u, bad := url.Parse(s); err == nil && !d.missing.any() && (bad != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New(`must be a whole one; write "https://host/path"`)
	}
	return s, err
}

// pattern reads a regular expression, and leaves it as text.
func pattern(v hujson.Value) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", err
	}
	if _, bad := regexp.Compile(s); bad != nil {
		why := bad.Error()
		if syntax, ok := errors.AsType[*syntax.Error](bad); ok {
			why = syntax.Code.String()
		}
		return "", fmt.Errorf(`must be a regular expression (%s); close what is open, and write \\ before a character that is meant as such`, why)
	}
	return s, nil
}

// optional reads what may also be unsaid.
func optional[T any](read reader[T]) reader[*T] {
	return func(v hujson.Value) (*T, error) {
		t, err := read(v)
		if err != nil {
			return nil, err
		}
		return &t, nil
	}
}

// elements is the field of an array of objects. Of each, read makes a T, or says
// what is wrong with it and false; then it is left out. Example completes the
// sentence about a value that is something else.
func elements[T any](d *decoder, to *[]T, example string, read func(o *hujson.Object, at int) (T, bool)) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		a, ok := m.Value.Value.(*hujson.Array)
		if !ok {
			d.warn(m.Name.StartOffset, "%q must be an array of objects; write %s", keyOf(m), example)
			return
		}
		*to = nil
		for i, e := range a.Elements {
			o, ok := e.Value.(*hujson.Object)
			if !ok {
				d.warn(e.StartOffset, "\"%s[%d]\" must be an object; write %s", keyOf(m), i, example)
				continue
			}
			if t, ok := read(o, e.StartOffset); ok {
				*to = append(*to, t)
			}
		}
	}
}
