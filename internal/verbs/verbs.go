// Package verbs finds the actions that a task asks for and that a tool does, as classes of verbs: to
// list, to create, to delete and so on. A class reads or writes, and may have opposites.
// The classes are in verbs.txt.
package verbs

import (
	_ "embed"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// A Set is a set of classes. It is empty if the verb is not known.
type Set uint64

const maxClasses = 64

// A kind is the effect of a class of verbs on things outside.
type kind string

const (
	reads    kind = "reads"
	writes   kind = "writes"
	destroys kind = "destroys"
	acts     kind = "acts" // any of them
)

//go:embed verbs.txt
var list string

// A lexicon is verbs.txt. It is immutable.
type lexicon struct {
	names      []string // of the classes
	kinds      []kind
	near       []Set
	opposite   []Set
	reading    Set               // the classes that only read
	writing    Set               // those that write or destroy
	destroys   Set               // those that destroy
	verbs      map[string]Set    // by each form of the word
	nouns      map[string]bool   // forms that are nouns as well
	adjectives map[string]bool   // verbs that are adjectives as well
	phrases    map[string][]verb // verbs of several words, by the first, the longest first
	question   Set               // of a question
	statement  Set               // of a task without a verb
}

// A verb is one of several words.
type verb struct {
	rest    []string // the words after the first
	apart   bool     // the object may stand before the last word
	classes Set
}

var words = sync.OnceValue(func() *lexicon { return parse(list) })

// parse reads the form of verbs.txt. Lines that are wrong are the business of the test.
func parse(text string) *lexicon {
	l := &lexicon{verbs: make(map[string]Set), nouns: make(map[string]bool), adjectives: make(map[string]bool), phrases: make(map[string][]verb)}
	var heads, members [][]string
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(head)
		heads, members = append(heads, fields[1:]), append(members, strings.Split(tail, ","))
		l.names = append(l.names, fields[0])
	}
	l.near, l.opposite = make([]Set, len(heads)), make([]Set, len(heads))
	for i, head := range heads {
		l.kinds = append(l.kinds, kind(head[0]))
		l.relate(i, head[1:])
		for _, member := range members[i] {
			l.add(strings.TrimSpace(member), 1<<i)
		}
		switch l.kinds[i] {
		case reads:
			l.reading |= 1 << i
		case destroys:
			l.destroys |= 1 << i
			l.writing |= 1 << i
		case writes:
			l.writing |= 1 << i
		}
	}
	for _, phrases := range l.phrases {
		slices.SortStableFunc(phrases, func(a, b verb) int { return len(b.rest) - len(a.rest) })
	}
	l.question = l.class("list") | l.class("get") | l.class("search") | l.class("check")
	l.statement = l.class("list") | l.class("get") | l.class("search")
	return l
}

// relate notes the classes that are near to class i, and its opposites.
func (l *lexicon) relate(i int, relations []string) {
	for _, relation := range relations {
		j := slices.Index(l.names, relation[1:])
		if j < 0 {
			continue
		}
		to := l.near
		if relation[0] == '!' {
			to = l.opposite
		}
		to[i] |= 1 << j
		to[j] |= 1 << i
	}
}

// class returns the class of that name, or an empty one.
func (l *lexicon) class(name string) Set {
	if i := slices.Index(l.names, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// add adds a verb to a class.
func (l *lexicon) add(member string, class Set) {
	member, isNoun := strings.CutSuffix(member, "*")
	member, isAdjective := strings.CutSuffix(member, "+")
	parts := strings.FieldsFunc(member, func(r rune) bool { return r == ' ' || r == '-' })
	if len(parts) == 0 {
		return
	}
	if isAdjective {
		l.adjectives[parts[0]] = true
	}
	for _, form := range forms(parts[0]) {
		if len(parts) == 1 {
			l.verbs[form] |= class
			if isNoun {
				l.nouns[form] = true
			}
			continue
		}
		apart := strings.Contains(member, "-")
		known := l.phrases[form]
		if i := slices.IndexFunc(known, func(v verb) bool { return slices.Equal(v.rest, parts[1:]) }); i >= 0 {
			known[i].classes |= class
			known[i].apart = known[i].apart || apart
			continue
		}
		l.phrases[form] = append(known, verb{parts[1:], apart, class})
	}
}

// forms returns the regular forms of a verb: create, creates, created, creating; and its
// English stem, creat, by which the lexicon of foreign words names it.
func forms(v string) []string {
	all := []string{v, v + "s", v + "es", v + "ed", v + "ing"}
	last := v[len(v)-1]
	switch {
	case last == 'e':
		all = append(all, v+"d", v[:len(v)-1]+"ing")
		if len(v) > 5 {
			all = append(all, v[:len(v)-1])
		}
	case last == 'y':
		all = append(all, v[:len(v)-1]+"ies", v[:len(v)-1]+"ied", v[:len(v)-1]+"i")
	case len(v) > 2 && !strings.ContainsRune("aeiouwxy", rune(last)) && strings.ContainsRune("aeiou", rune(v[len(v)-2])):
		all = append(all, v+string(last)+"ed", v+string(last)+"ing")
	}
	return all
}

// Agreement returns how far a tool does the actions asked for, from 0 to 1.
func Agreement(task, tool Set) float64 {
	l := words()
	switch {
	case task&tool != 0:
		return 1
	case l.related(l.near, task)&tool != 0:
		return 0.4
	}
	return 0
}

// Conflict returns how far a tool does actions that are not asked for, from 0 to 1: the opposite, or
// writing where reading is asked for. readOnly says that the tool changes nothing.
func Conflict(task, tool Set, readOnly bool) float64 {
	l := words()
	if task == 0 || task&tool != 0 {
		return 0
	}
	opposite := l.related(l.opposite, task)&tool != 0
	asksReading, asksWriting := task&^l.reading == 0, task&^l.writing == 0
	reading := readOnly || tool != 0 && tool&^l.reading == 0
	writing := !reading && tool != 0 && tool&^l.writing == 0
	near := l.related(l.near, task)&tool != 0
	switch {
	case opposite && !near:
		return 1
	case asksReading && writing && tool&l.destroys != 0:
		return 1
	case asksReading && writing:
		return 0.8
	case asksWriting && reading:
		return 0.7
	case asksWriting && writing && task&l.destroys == 0 && tool&^l.destroys == 0:
		return 0.8
	}
	return 0
}

// related returns the classes to which a set is related.
func (l *lexicon) related(to []Set, s Set) (all Set) {
	for s != 0 {
		i := bits.TrailingZeros64(uint64(s))
		all |= to[i]
		s &= s - 1
	}
	return all
}
