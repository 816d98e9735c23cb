package main

import (
	"cmp"
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type summarizeArgs struct {
	Text         string `json:"text"`
	MaxSentences int    `json:"max_sentences"`
}

type summary struct {
	Summary          string `json:"summary"`
	SummarySentences int    `json:"summary_sentences"`
}

var docSummarizeTool = readOnly("doc_summarize", "Summarize a document",
	"Summarize a document, article or other long text: pick its most important sentences by word frequency "+
		"and return them unchanged, in their original order (extractive summary, TL;DR). "+
		"Deterministic, without a language model. An empty text has an empty summary.",
	`{
	"type": "object",
	"properties": {
		"text": {"type": "string", "description": "The text to summarize."},
		"max_sentences": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 3, "description": "How many sentences the summary may have at most."}
	},
	"required": ["text"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"summary": {"type": "string", "description": "The chosen sentences, joined by spaces."},
		"summary_sentences": {"type": "integer", "minimum": 0, "description": "How many sentences the summary has."}
	},
	"required": ["summary", "summary_sentences"],
	"additionalProperties": false
}`)

func docSummarize(_ context.Context, _ *mcp.CallToolRequest, a summarizeArgs) (*mcp.CallToolResult, summary, error) {
	text, n := summarize(a.Text, a.MaxSentences)
	return nil, summary{text, n}, nil
}

// summarize picks at most limit sentences of the text and returns them in their
// order, joined by spaces, and their number. A sentence scores by how often its
// words occur in the whole text, stop words aside (Luhn, The Automatic Creation
// of Literature Abstracts, 1958), over the square root of its length, so that
// neither long nor short sentences win by length. Of equals, the earlier wins.
func summarize(text string, limit int) (string, int) {
	all := sentences(text)
	bags := make([][]string, len(all))
	frequency := map[string]int{}
	for i, s := range all {
		bags[i] = contentWords(s)
		for _, w := range bags[i] {
			frequency[w]++
		}
	}
	score := make([]float64, len(all))
	order := make([]int, len(all))
	for i, bag := range bags {
		order[i] = i
		sum := 0
		slices.Sort(bag)
		for _, w := range slices.Compact(bag) {
			sum += frequency[w]
		}
		score[i] = float64(sum) / math.Sqrt(float64(max(len(bag), 1)))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	order = order[:min(limit, len(order))]
	slices.Sort(order)
	chosen := make([]string, len(order))
	for i, n := range order {
		chosen[i] = all[n]
	}
	return strings.Join(chosen, " "), len(chosen)
}

// contentWords returns the words of s in lower case, without stop words.
func contentWords(s string) []string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	})
	return slices.DeleteFunc(words, func(w string) bool {
		return utf8.RuneCountInString(w) < 2 || listed(stopWords, w)
	})
}

// sentences splits a text. Every word of the text is in one of them, in order,
// with single spaces between. A sentence ends at a full stop, question mark or
// exclamation mark before a space, unless an abbreviation, an initial or a
// lower-case word says that it goes on; and at a blank line, a heading or a list
// item.
func sentences(text string) []string {
	var all []string
	var words []string // of the sentence so far
	end := func() {
		if len(words) > 0 {
			all = append(all, strings.Join(words, " "))
			words = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item := listItem.MatchString(line)
		if line == "" || item {
			end()
		}
		for word := range strings.FieldsSeq(separateCJK(line)) {
			n := len(words)
			marker := n == 1 && listItem.MatchString(words[0]+" ")
			if n > 0 && !marker && endsSentence(words[n-1], word) {
				end()
			}
			words = append(words, word)
		}
		if item && line[0] == '#' {
			end()
		}
	}
	end()
	return all
}

// listItem is the beginning of a list item or a heading.
var listItem = regexp.MustCompile(`^([-*•–]|#+|\d{1,3}[.)]) `)

// separateCJK puts a space after full stops that are not followed by one in
// Chinese and Japanese.
func separateCJK(s string) string {
	return strings.NewReplacer("。」", "。」 ", "。", "。 ", "！」", "！」 ", "！", "！ ", "？」", "？」 ", "？", "？ ").Replace(s)
}

// endsSentence reports whether a sentence ends between two words.
func endsSentence(word, next string) bool {
	word = strings.TrimRight(word, `"'”’»)]}*_」`)
	last, _ := utf8.DecodeLastRuneInString(word)
	switch last {
	case '。', '！', '？':
		return true
	case '.', '!', '?', '…', '‽', '।', '؟':
	default:
		return false
	}
	next = strings.TrimLeft(next, `"'“‘«([{*_¿¡`)
	first, _ := utf8.DecodeRuneInString(next)
	if unicode.IsLower(first) {
		return false
	}
	if last != '.' {
		return true
	}
	word = strings.TrimLeft(strings.TrimRight(word, "."), `"'“‘«([{*_`)
	lower := strings.ToLower(word)
	switch {
	case listed(titles, lower):
		return false
	case listed(numbered, lower):
		return !unicode.IsDigit(first)
	case isInitials(word): // "J. Smith", "the U.S. Army", but "in the U.S. The"
		return listed(stopWords, strings.ToLower(strings.TrimRight(next, ",")))
	}
	return true
}

// isInitials reports whether a word, its last full stop aside, is a single
// capital other than I, or letters with full stops between.
func isInitials(word string) bool {
	if word == "I" {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		r, size := utf8.DecodeRuneInString(part)
		if size == 0 || size != len(part) || !unicode.IsLetter(r) {
			return false
		}
	}
	return strings.Contains(word, ".") || word == strings.ToUpper(word)
}

// listed reports whether a list of words, which begins and ends with a space,
// has the word.
func listed(list, word string) bool {
	return word != "" && strings.Contains(list, " "+word+" ")
}

// Abbreviations, without the last full stop: those that a name follows, or that
// explain, and never end a sentence; and those that end one unless a number
// follows.
const (
	titles = " mr mrs ms mx dr prof st rev hon gen col capt lt cmdr sgt sen rep gov pres messrs" +
		" e.g eg i.e ie cf vs v viz al approx ca resp incl est dept ave blvd mt ft" +
		" jan feb mar apr jun jul aug sep sept oct nov dec "
	numbered = " no nos fig figs vol vols p pp sec ch eq eqs art par tab nr "
)

// stopWords say little about the subject of a text. They are also the words with
// which English sentences most often begin.
const stopWords = " a about above after again against ain all also although am an and any are aren as at" +
	" be because been before being below between both but by can cannot could couldn" +
	" did didn do does doesn doing don down during each either else even ever every few for from further" +
	" get gets got had hadn has hasn have haven having he her here hers herself him himself his how however" +
	" if in into is isn it its itself just let ll may me might mightn more most much must mustn my myself" +
	" needn neither no nor not now of off on once one only or other our ours ourselves out over own" +
	" per re same shall shan she should shouldn since so some still such" +
	" than that the their theirs them themselves then there therefore these they this those though through thus to too" +
	" under until up upon us ve very was wasn we were weren what when where whether which while who whom whose why will with within without won would wouldn" +
	" yet you your yours yourself yourselves "
