// Package capability infers the capability tags of tools, such as "browser", and finds reasons to
// doubt that a tool does no harm.
package capability

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Weights of a word as evidence, by its place. One word in the name is enough; a word
// elsewhere needs another one. Weights are probabilities, and places count as independent.
const (
	inName      = 0.9
	asAction    = 0.65 // the verb that opens the description
	inSentence  = 0.5  // in the title, or the first sentence of the description
	inServer    = 0.5
	inParameter = 0.25
	asProduct   = 0.8 // a product's name in the server's name
	asPair      = 0.7 // two words of a pair, wherever they are
	asHint      = 0.7 // the server declares the tool destructive
	weak        = 0.5 // factor of a word marked as weak

	enough = 0.6
)

// taxonomy.txt explains its own form.
//
//go:embed taxonomy.txt
var embedded string

// A Taxonomy is a list of words for each capability. It is immutable.
type Taxonomy struct {
	words map[string][]string // by tag, as shown to people
	terms map[string][]term   // by the stem of their first word

	harmful map[string][]term // actions that write, delete or pay, see Doubt; the embedded ones are never replaced
}

// A term is one entry of the taxonomy.
type term struct {
	tag     string
	text    string   // as shown to people
	stems   []string // one word, or a phrase
	weak    bool     // text? : never enough by itself
	product bool     // text! : enough in the server's name
	action  bool     // ^text : counts only as the verb
	pair    bool     // a+b : both words, anywhere
}

// NewTaxonomy returns the embedded taxonomy with the overrides applied: a map
// from tags to words in the form of taxonomy.txt. Words of a known tag replace
// its own; an empty list removes it.
func NewTaxonomy(overrides map[string][]string) *Taxonomy {
	words := map[string][]string{}
	for line := range strings.Lines(embedded) {
		if tag, list, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			words[tag] = strings.Split(list, ",")
		}
	}
	own := map[string][]string{}
	for tag, list := range overrides {
		own[strings.ToLower(strings.TrimSpace(tag))] = list
	}
	x := &Taxonomy{words: map[string][]string{}, terms: map[string][]term{}, harmful: harmfulTerms(words, own)}
	maps.Copy(words, own)
	for _, tag := range slices.Sorted(maps.Keys(words)) {
		for _, word := range words[tag] {
			if t := parseTerm(tag, word); len(t.stems) > 0 {
				x.terms[t.stems[0]] = append(x.terms[t.stems[0]], t)
				x.words[tag] = append(x.words[tag], strings.ReplaceAll(t.text, "+", " "))
			}
		}
	}
	return x
}

func parseTerm(tag, s string) term {
	s = strings.TrimSpace(s)
	t := term{tag: tag}
	s, t.action = strings.CutPrefix(s, "^")
	s, t.weak = strings.CutSuffix(s, "?")
	s, t.product = strings.CutSuffix(s, "!")
	t.text = s
	t.stems = stems(prose(s))
	t.pair = strings.Contains(s, "+") && len(t.stems) == 2
	return t
}

// Tags returns all capabilities, sorted.
func (x *Taxonomy) Tags() []string { return slices.Sorted(maps.Keys(x.words)) }

// Words returns the words, phrases and names of a tag, in the order of the taxonomy.
func (x *Taxonomy) Words(tag string) []string { return slices.Clone(x.words[tag]) }

// Infer returns the capabilities of a tool, sorted by name, from its name,
// title, description, parameters, annotations and the name of its server. It prefers to
// miss a capability over a wrong one.
func (x *Taxonomy) Infer(t registry.NormalizedTool) (tags []string) {
	name := identifier(t.ServerName())
	sentence := prose(firstSentence(t.Description))
	e := evidence{}
	var all []string
	for _, place := range []struct {
		name  string
		words []string
		worth float64
	}{
		{"name", name, inName},
		{"title", prose(t.Title), inSentence},
		{"description", sentence, inSentence},
		{"parameters", parameters(t.InputSchema), inParameter},
		{"server", identifier(t.Server), inServer},
	} {
		all = append(all, place.words...)
		for _, term := range x.match(place.words) {
			worth := term.worth(place.worth)
			if term.product && place.name == "server" {
				worth = asProduct
			}
			e.add(term, place.name, worth)
		}
	}
	for _, term := range x.pairs(all) {
		e.add(term, "together", asPair)
	}
	for _, term := range x.does(x.verb(name)) {
		e.add(term, "name", inName)
	}
	for _, term := range x.does(opening(sentence)) {
		e.add(term, "description", asAction)
	}
	switch { // annotations win over words
	case t.Hints.IsReadOnly():
		delete(e, "write")
		delete(e, "delete")
	case t.Hints.IsDestructive() && e["delete"] == nil && x.words["write"] != nil:
		e.add(term{tag: "write", text: "destructive"}, "annotations", asHint)
	}
	return e.tags()
}

func (t term) worth(v float64) float64 {
	if t.weak {
		return v * weak
	}
	return v
}

// match returns the words and phrases of the taxonomy that are in words.
func (x *Taxonomy) match(words []string) (found []term) {
	for rest := stems(words); len(rest) > 0; rest = rest[1:] {
		for _, t := range x.terms[rest[0]] {
			if !t.action && !t.pair && len(t.stems) <= len(rest) && slices.Equal(t.stems, rest[:len(t.stems)]) {
				found = append(found, t)
			}
		}
	}
	return found
}

// pairs returns the pairs of the taxonomy with both words in words.
func (x *Taxonomy) pairs(words []string) (found []term) {
	all := slices.Compact(slices.Sorted(slices.Values(stems(words))))
	for _, w := range all {
		for _, t := range x.terms[w] {
			if !t.pair {
				continue
			}
			if _, both := slices.BinarySearch(all, t.stems[1]); both {
				found = append(found, t)
			}
		}
	}
	return found
}

// does returns the actions of the taxonomy that the verb is.
func (x *Taxonomy) does(verb string) (found []term) {
	for _, t := range x.terms[stem(verb)] {
		if t.action && len(t.stems) == 1 {
			found = append(found, t)
		}
	}
	return found
}

// reading are verbs of tools that change nothing. After them no other word is the verb:
// get_commit, list_updates.
var reading = stemSet("analyze browse check count describe download explain fetch find get inspect list lookup query read retrieve search show validate view watch")

// verb returns the verb of a tool's name: the first word that is an action of the taxonomy,
// or "" if a reading verb comes before it.
func (x *Taxonomy) verb(name []string) string {
	for _, w := range name {
		if reading()[stem(w)] {
			return ""
		}
		if len(x.does(w)) > 0 {
			return w
		}
	}
	return ""
}

// filler are the words that come before the verb of a description.
var filler = stemSet("a allow can could help i it let like me must need please should this to tool use user want we will would you your")

// opening returns the first word that is not filler: the verb, if a description begins with one.
func opening(words []string) string {
	for _, w := range words {
		if !filler()[stem(w)] {
			return w
		}
	}
	return ""
}

// evidence has the best worth of each witness for each tag. A place is one witness, and a
// weak word is one witness in all places.
type evidence map[string]map[string]float64

func (e evidence) add(t term, place string, worth float64) {
	witness := place
	if t.weak {
		witness = t.text + "?"
	}
	if e[t.tag] == nil {
		e[t.tag] = make(map[string]float64)
	}
	e[t.tag][witness] = max(worth, e[t.tag][witness])
}

// tags returns the tags with enough evidence, sorted.
func (e evidence) tags() (tags []string) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		doubt := 1.0
		for _, witness := range slices.Sorted(maps.Keys(e[name])) { // in one order, so that sums are the same
			doubt *= 1 - e[name][witness]
		}
		if 1-doubt >= enough {
			tags = append(tags, name)
		}
	}
	return tags
}
