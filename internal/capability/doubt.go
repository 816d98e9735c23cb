package capability

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// does says for people how a tool with one of these capabilities changes things outside.
var does = map[string]string{"write": "changes something", "delete": "deletes", "payment": "pays"}

// Doubt returns why it is not believed that the tool does no harm, though its server declares
// that it only reads, or that it destroys nothing: its name, its title, its description or
// the choices of a parameter such as "action" have a verb of writing, deleting or paying.
// Creating something does not speak against a tool that destroys nothing. Doubt returns "" if
// nothing speaks against the declaration, or it is missing.
//
// The verb that a name begins with decides: get_deleted_items and preview_update only read,
// find_and_remove does not.
func (x *Taxonomy) Doubt(t registry.NormalizedTool) string {
	reads := t.Hints.IsReadOnly()
	if !reads && (t.Hints.Destructive == nil || *t.Hints.Destructive) {
		return ""
	}
	counts := func(a act) bool { return a.verb != "" && (reads || a.tag != "write") }
	name := identifier(t.ServerName())
	observed := slices.ContainsFunc(name, observes)
	for _, said := range []struct {
		where string
		act   act
	}{
		{"name", x.nameActs(name)},
		{"name", x.nameActs(identifier(t.Name))}, // as the configuration renames it
		{"title", x.nameActs(prose(t.Title))},
		{"description", x.textActs(prose(firstSentence(t.Description)), observed)},
	} {
		if counts(said.act) {
			return fmt.Sprintf("its %s says that it %s (%q)", said.where, does[said.act.tag], said.act.verb)
		}
	}
	if observed { // the choices may be a filter
		return ""
	}
	if parameter, a := x.choiceActs(t.InputSchema); counts(a) {
		return fmt.Sprintf("it %s if its parameter %q is %q", does[a.tag], parameter, a.verb)
	}
	return ""
}

// An act is a capability that does something to things outside, and the verb that says so.
// The zero value is no act.
type act struct{ tag, verb string }

// Words that [Taxonomy.Doubt] knows beyond the taxonomy.
var (
	// further are verbs that say too little about a tool to be tags.
	further = map[string]string{
		"del": "delete", "nuke": "delete", "empty": "delete", "flush": "delete", "shred": "delete", "obliterate": "delete",
		"expunge": "delete", "evict": "delete", "eliminate": "delete", "forget": "delete",
		"ban": "write", "shutdown": "write", "stop": "write",
		"checkout": "payment", "sell": "payment", "trade": "payment",
	}

	// observing are verbs of tools that change nothing, like the verbs in reading: a verb that comes
	// after them is their object.
	observing = stemSet("audit calculate can compare compute convert detect diff display dry enumerate estimate evaluate examine export extract generate has is ls parse peek ping plan poll predict preview propose recommend render report resolve review scan see select simulate suggest summarize tail test tell track translate verify what which who will would")

	// nouns are verbs that are nouns as well: order_list has no verb of paying.
	nouns = stemSet("archive book cancel change charge checkout clean cleanup clone commit complete copy deploy draft drop duplicate execute finish fork import install lock mark merge mute order patch pause pin post promote purchase push refund register reply reset restore retry rollback schedule scale share star stop store submit subscribe sync trade transfer trash trigger upgrade upload withdraw")

	// results are nouns for things that a tool reads.
	results = stemSet("detail history info information log overview reader stat statistic status summary viewer")

	// lists are words that a name may begin with as verbs and as nouns: list_remove.
	lists = stemSet("download list query search view watch")

	// determiners come after a verb, and not after a noun.
	determiners = lazy.Words("a an all any every new one or some that the this to your")

	// versioned are things beside which a checkout pays nothing.
	versioned = lazy.Words("branch branches commit git repo repository revision svn")

	// choosing are the parameters that choose the action of a tool.
	choosing = lazy.Words("action cmd command method op operation verb")
)

func observes(word string) bool { return reading()[stem(word)] || observing()[stem(word)] }

// nameActs returns the effects of the verb of a name, or of a title. A word that is a noun as well
// is the verb only if no other word says that the tool reads.
func (x *Taxonomy) nameActs(words []string) act {
	for _, clause := range parts(words) {
		observed := slices.ContainsFunc(clause, func(w string) bool { return observes(w) || results()[stem(w)] })
		for i, w := range clause {
			a := x.harm(w)
			if a.verb == "checkout" && slices.ContainsFunc(clause, func(w string) bool { return versioned()[w] }) {
				a.tag = "write"
			}
			if a.verb == "" && observes(w) {
				if !lists()[stem(w)] {
					break
				}
				if a = x.deletion(clause[i+1:]); a.verb == "" {
					break
				}
			}
			if a.verb != "" && (!observed || !nouns()[stem(w)]) {
				return a
			}
		}
	}
	for _, t := range x.pairs(words) {
		if does[t.tag] != "" {
			return act{t.tag, t.text}
		}
	}
	return act{}
}

// deletion returns the first word that is a verb of deleting and no noun.
func (x *Taxonomy) deletion(words []string) act {
	for _, w := range words {
		if a := x.harm(w); a.tag == "delete" && !nouns()[stem(w)] {
			return a
		}
	}
	return act{}
}

// textActs returns the effects of the verb that opens the first sentence of a description: "Sends",
// "Use this tool to send". A verb after "and" counts if it deletes. observed says that the
// tool has a name of one that reads: then a word that is a noun as well is no verb.
func (x *Taxonomy) textActs(words []string, observed bool) act {
	first := true
	for _, clause := range parts(words) {
		for len(clause) > 0 && filler()[stem(clause[0])] {
			clause = clause[1:]
		}
		if len(clause) == 0 {
			continue
		}
		verb := clause[0]
		a := x.harm(verb)
		if a.verb == "" && first {
			a = x.harm(person(verb))
		}
		noun := nouns()[stem(verb)] && (observed || len(clause) < 2 || !determiners()[clause[1]])
		if a.verb != "" && !noun && (first || a.tag == "delete") {
			return a
		}
		first = false
	}
	return act{}
}

// person returns the base form of a verb in the third person: sends, pushes, applies.
func person(verb string) string {
	switch {
	case strings.HasSuffix(verb, "ies"):
		return strings.TrimSuffix(verb, "ies") + "y"
	case strings.HasSuffix(verb, "shes"), strings.HasSuffix(verb, "sses"), strings.HasSuffix(verb, "ches"):
		return strings.TrimSuffix(verb, "es")
	}
	return strings.TrimSuffix(verb, "s")
}

// choiceActs returns the effects among which a parameter of a tool chooses: "action" with the
// choices "get" and "delete".
func (x *Taxonomy) choiceActs(schema json.RawMessage) (parameter string, found act) {
	for name, property := range wire.All(wire.Member(schema, "properties")) {
		var choices []any
		if !choosing()[strings.ToLower(name)] || json.Unmarshal(wire.Member(property, "enum"), &choices) != nil {
			continue
		}
		const most = 100
		for _, choice := range choices[:min(len(choices), most)] {
			text, _ := choice.(string)
			if a := x.nameActs(identifier(text)); a.verb != "" {
				return name, a
			}
		}
	}
	return "", act{}
}

// harm returns the effect of a verb that writes, deletes or pays. The verb must be in its base
// form: a participle, as in deleted_items, and a plural do not count.
func (x *Taxonomy) harm(word string) act {
	if tag, ok := further[word]; ok {
		return act{tag, word}
	}
	for _, t := range x.harmful[stem(word)] {
		if word == t.text || t.tag == "delete" && word == t.text+"s" && !nouns()[stem(word)] {
			return act{t.tag, word}
		}
	}
	for _, verb := range deleting { // without a separator: deleteall
		if rest, ok := strings.CutPrefix(word, verb); ok && len(rest) > 2 && rest[0] != 'd' {
			return act{"delete", verb}
		}
	}
	return act{}
}

// deleting are verbs that no other word begins with.
var deleting = []string{"delete", "remove", "destroy", "uninstall"}

// parts returns the parts of a name or a sentence that are joined by "and", "or" or "then".
func parts(words []string) (all [][]string) {
	from := 0
	for i, w := range words {
		if w == "and" || w == "or" || w == "then" {
			all, from = append(all, words[from:i]), i+1
		}
	}
	return append(all, words[from:])
}

// harmfulTerms returns the actions of writing, deleting and paying in the lists of words, by
// the stem of the word.
func harmfulTerms(lists ...map[string][]string) map[string][]term {
	all := make(map[string][]term)
	for _, words := range lists {
		for _, tag := range []string{"delete", "payment", "write"} {
			for _, word := range words[tag] {
				if t := parseTerm(tag, word); t.action && len(t.stems) == 1 {
					all[t.stems[0]] = append(all[t.stems[0]], t)
				}
			}
		}
	}
	return all
}
