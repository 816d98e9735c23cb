package main

import (
	"bytes"
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type redactArgs struct {
	Text         string `json:"text"`
	RedactEmails bool   `json:"redact_emails"`
	RedactPhones bool   `json:"redact_phones"`
	Replacement  string `json:"replacement"`
}

type redacted struct {
	RedactedText string `json:"redacted_text"`
	Redactions   int    `json:"redactions"`
}

var piiRedactTool = readOnly("pii_redact", "Redact personal data",
	"Redact personally identifiable information (PII) in a text: replace every email address and phone number "+
		"with a placeholder, to anonymize or mask it before it is stored, logged or shared. "+
		"Dates, times, IP addresses, versions and order numbers are left alone.",
	`{
	"type": "object",
	"properties": {
		"text": {"type": "string", "description": "The text to redact."},
		"redact_emails": {"type": "boolean", "default": true, "description": "Whether to replace email addresses."},
		"redact_phones": {"type": "boolean", "default": true, "description": "Whether to replace phone numbers."},
		"replacement": {"type": "string", "default": "[REDACTED]", "description": "What to put in place of each."}
	},
	"required": ["text"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"redacted_text": {"type": "string", "description": "The text with the replacements made."},
		"redactions": {"type": "integer", "minimum": 0, "description": "How many replacements were made."}
	},
	"required": ["redacted_text", "redactions"],
	"additionalProperties": false
}`)

func piiRedact(_ context.Context, _ *mcp.CallToolRequest, a redactArgs) (*mcp.CallToolResult, redacted, error) {
	text, n := redact(a.Text, a.RedactEmails, a.RedactPhones, a.Replacement)
	return nil, redacted{text, n}, nil
}

// redact replaces the email addresses and the phone numbers of a text, and counts them.
func redact(text string, emails, phones bool, replacement string) (string, int) {
	masked := []byte(text) // the same length, with underscores for everything that is not a phone number
	var found []span
	for _, m := range email.FindAllStringIndex(text, -1) {
		mask(masked, m)
		if emails {
			found = append(found, span{m[0], m[1]})
		}
	}
	if phones {
		for _, m := range notPhone.FindAllStringIndex(text, -1) {
			mask(masked, m)
		}
		found = append(found, findPhones(string(masked))...)
		slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	}
	var out strings.Builder
	end := 0
	for _, s := range found {
		out.WriteString(text[end:s.start])
		out.WriteString(replacement)
		end = s.end
	}
	out.WriteString(text[end:])
	return out.String(), len(found)
}

// A span is text[start:end].
type span struct{ start, end int }

func mask(text []byte, m []int) {
	copy(text[m[0]:m[1]], bytes.Repeat([]byte{'_'}, m[1]-m[0]))
}

var (
	// email matches an address as people write it: no quoted local part, and a domain
	// with a dot or an address literal.
	email = regexp.MustCompile(`[\pL\pN_+][\pL\pM\pN._%+'’-]*@` +
		`(?:(?:[\pL\pN](?:[\pL\pM\pN-]*[\pL\pM\pN])?\.)+\pL[\pL\pM\pN-]*[\pL\pM\pN]|\[[0-9A-Fa-f.:]+\])`)

	// notPhone matches other things with groups of digits: an IBAN, a payment card, a
	// UUID.
	notPhone = regexp.MustCompile(`\b(?:[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?|\d{4}(?:[ -]\d{4}){3}|` +
		`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\b`)

	// digitRun matches digits and the characters allowed between them in a phone number.
	digitRun = regexp.MustCompile(`[+(]{0,2}\d(?:[ \t\x{A0}\x{2009}\x{202F}.()/\-‐‑–]{0,3}\d)*`)

	// group is a part of a run without spaces; its punctuation is not part of it.
	group = regexp.MustCompile(`[+(]*\d(?:[.()/\-‐‑–]*\d)*\)?`)

	// extension may follow a number.
	extension = regexp.MustCompile(`^,? ?(?i:x|ext\.? ?|extension ?)\d{1,6}\b`)
)

// Bounds of the digits of a phone number: at most 15 by ITU-T E.164, after an international
// prefix.
const (
	maxGroups = 8
	minDigits = 7
	maxDigits = 18
)

// findPhones finds the phone numbers of a text. A number is the longest sequence of whole
// groups of a run that has the form of a phone number: "2026-11-21 555-123-4567" has one
// number, "555-123-4567-89" has no number.
func findPhones(text string) []span {
	var found []span
	end := 0 // of the last one found: its extension may reach into the next run
	for _, m := range digitRun.FindAllStringIndex(text, -1) {
		groups := group.FindAllStringIndex(text[m[0]:m[1]], -1)
		for i := 0; i < len(groups); {
			start := m[0] + groups[i][0]
			used := 0
			for n := min(maxGroups, len(groups)-i); n > 0 && used == 0 && start >= end; n-- {
				if s, ok := phoneAt(text, start, m[0]+groups[i+n-1][1]); ok {
					found = append(found, s)
					used, end = n, s.end
				}
			}
			i += max(used, 1)
		}
	}
	return found
}

// phoneAt reports whether text[start:end] is a phone number, and its span
// without brackets around it and with its extension.
func phoneAt(text string, start, end int) (span, bool) {
	s := text[start:end]
	if open := strings.IndexByte(s, '('); open == 0 && !strings.Contains(s[:len(s)-1], ")") {
		start++ // "(555-123-4567)"
	}
	if strings.HasSuffix(s, ")") {
		end-- // a number ends with a digit
	}
	if n := countDigits(text[start:end]); n < minDigits || n > maxDigits || !beginsWord(text[:start]) {
		return span{}, false
	}
	s = normalizePhone(text[start:end])
	before := text[:start]
	if date.MatchString(s) || other.MatchString(s) || isDigits(s) && announces(otherLabel, before) {
		return span{}, false
	}
	if !isPhone(s) && !announces(phoneLabel, before) {
		return span{}, false
	}
	if m := extension.FindStringIndex(text[end:]); m != nil {
		end += m[1]
	}
	return span{start, end}, endsWord(text[end:])
}

var spelling = strings.NewReplacer("\t", " ", "\u00a0", " ", "\u2009", " ", "\u202f", " ", "‐", "-", "‑", "-", "–", "-")

// normalizePhone writes each separator in one way.
func normalizePhone(s string) string {
	s = strings.Join(strings.Fields(spelling.Replace(s)), " ")
	return strings.ReplaceAll(s, " - ", "-")
}

var (
	international = regexp.MustCompile(`^\(?(\+|00 ?|011[ -])\(?[1-9][\d ().\-/]*$`)
	trunk         = regexp.MustCompile(`^\(?0[1-9]\d{0,4}\)?(?:[ .\-/]?\d{2,8})+$`)
	national      = regexp.MustCompile(`^(?:` + strings.Join([]string{
		`(?:1[ .-]?)?(?:\(\d{3}\)[ .-]?|\d{3}[ .-]|\d{3}/)\d{3}[ .-]\d{4}`, // North America
		`(?:1[ .-]?)?\(\d{3}\) ?\d{7}`,
		`1?[2-9]\d{9}`,
		`555-\d{4}`,
		`\(\d{2,5}\) ?\d{3,5}[ .-]?\d{3,5}`,       // an area code in brackets, as in Brazil
		`[6-9]\d{4}[ -]\d{5}`,                     // India
		`1[3-9]\d[ -]\d{4}[ -]\d{4}`,              // China
		`1[38]00[ -]\d{3}[ -]\d{3}`,               // Australia
		`[67]\d{2}[ .-]\d{2}[ .-]\d{2}[ .-]\d{2}`, // Spain
	}, "|") + `)$`)

	date = regexp.MustCompile(`(?:^| )(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|(?:0?[1-9]|[12]\d|3[01])[-/.](?:0?[1-9]|[12]\d|3[01])[-/.](?:\d\d){1,2})(?: |$)`)

	// other matches an IPv4 address, a ZIP+4 code, a social security number or a date and
	// hour without separators.
	other = regexp.MustCompile(`^(?:\d{1,3}(?:\.\d{1,3}){3}|\d{5}-\d{4}|\d{3}-\d\d-\d{4}|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d*)$`)
)

// isPhone reports whether s has the form of a phone number, without looking at the text
// before it.
func isPhone(s string) bool {
	digits := countDigits(s)
	if m := international.FindStringSubmatch(s); m != nil {
		digits -= countDigits(m[1])
		switch {
		case m[1] != "+":
			return digits >= 10 && digits <= 15
		case strings.HasPrefix(strings.TrimLeft(s, "(+"), "1"):
			return digits == 11
		}
		return digits >= 8 && digits <= 15
	}
	if trunk.MatchString(s) {
		return digits >= 9 && digits <= 12 && (digits >= 10 && digits <= 11 || !isDigits(s))
	}
	return national.MatchString(s)
}

// labelBytes is the distance within which a label before a number counts.
const labelBytes = 48

var (
	// phoneLabel matches a label of a phone number.
	phoneLabel = regexp.MustCompile(`(?i)(?:^|[^\pL])(?:tel|telephone|phone|mobile|mob|cell|cellphone|fax|whatsapp|call|dial|sms|hotline|helpline|ph)s?` +
		`[\s:._#="'’(-]*(?:(?:number|no|nr|line|us|me|him|her|them|is|at|on)[\s:._#="'’(-]+){0,3}$`)

	// otherLabel matches a label of another number.
	otherLabel = regexp.MustCompile(`(?i)(?:^|[^\pL])(?:order|invoice|ticket|case|ref|reference|tracking|account|acct|id|sku|isbn|serial|timestamp|epoch|transaction|receipt|policy|item|part|build|version)` +
		`[\s:._#="'’-]*(?:(?:number|num|no|nr|id|code|is)[\s:._#="'’-]+){0,2}$`)
)

// announces reports whether a text ends with a label.
func announces(label *regexp.Regexp, text string) bool {
	text = text[max(0, len(text)-labelBytes):]
	said := strings.TrimRight(text, " ")
	if said == "" || said[len(said)-1] >= '0' && said[len(said)-1] <= '9' {
		return false // fast, for tables of numbers
	}
	return label.MatchString(text)
}

// beginsWord reports whether a number can begin after the text before it, and
// is not the rest of a word, a URL, an amount or a time.
func beginsWord(before string) bool {
	r, size := utf8.DecodeLastRuneInString(before)
	previous, _ := utf8.DecodeLastRuneInString(before[:len(before)-size])
	switch r {
	case '_', '@', '#', '$', '€', '£', '¥', '+':
		return false
	case '-', '.', '/', '‐', '‑', '–':
		return !isWord(previous)
	case ':':
		return !unicode.IsDigit(previous)
	}
	return !isWord(r)
}

// endsWord reports whether a number can end before the text after it.
func endsWord(after string) bool {
	r, size := utf8.DecodeRuneInString(after)
	next, _ := utf8.DecodeRuneInString(after[size:])
	switch r {
	case '_', '@', '%', '°', '€', '£':
		return false
	case '-', '/', '‐', '‑', '–':
		return !isWord(next)
	case '.':
		return !unicode.IsDigit(next) && !unicode.IsLower(next)
	case ':':
		return !unicode.IsDigit(next)
	}
	return !isWord(r)
}

// isWord reports whether r is part of a word, in scripts that put spaces between
// words.
func isWord(r rune) bool {
	return unicode.IsDigit(r) || r == '_' ||
		unicode.IsLetter(r) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}

func isDigits(s string) bool { return countDigits(s) == len(s) }

func countDigits(s string) int {
	n := 0
	for _, b := range []byte(s) {
		if b >= '0' && b <= '9' {
			n++
		}
	}
	return n
}
