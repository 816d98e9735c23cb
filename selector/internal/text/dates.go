package text

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// date takes a date or a time out of the task that begins with the token at i, and may go
// on with the next ones. It returns its size, or 0 without one. A number after a word such
// as "issue" is an ID.
func (r *reader) date(i int, token string) int {
	end := i + len(token)
	word := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(token, "'s"), "’s"))
	if !strings.ContainsFunc(word, isDigit) && !isA("TIMES", word) && !isA("DAYS", word) && !isA("MONTHS", word) && !isA("NEAR", word) {
		return 0
	}
	next, nextEnd := r.peek(end)
	after, afterEnd := r.peek(nextEnd)
	switch {
	case all(word, isDigit) && isA("NUMBERED", r.before):
		r.take(token, value{kind: analysis.IDType})
		return len(token)
	case isA("TIMES", word), isA("DAYS", word), isDate(word), isClock(word):
	case isA("NEAR", word):
		switch {
		case isA("PERIODS", next) || isA("DAYS", next) || isA("MONTHS", next):
			end = nextEnd
		case isNumber(next) && isA("PERIODS", after):
			end = afterEnd
		default:
			return 0
		}
	case isMonth(token, r.before, next):
		if isNumber(next) {
			end = nextEnd
		}
		if isYear(after) && end == nextEnd {
			end = afterEnd
		}
	case isNumber(word) && isA("MONTHS", next):
		end = nextEnd
		if isYear(after) {
			end = afterEnd
		}
	case isNumber(word) && isA("PERIODS", next) && after == "ago":
		end = afterEnd
	case isNumber(word) && (next == "am" || next == "pm" || next == "o'clock"):
		end = nextEnd
	case all(word, isDigit) && r.before == "at", isYear(word):
	default:
		return 0
	}
	text := r.text[i:end]
	r.take(text, value{kind: analysis.DateType, optional: longWords(text)})
	return end - i
}

// peek returns the next word, in lower case, if only a space or a comma stands before it,
// and where it ends.
func (r *reader) peek(i int) (word string, end int) {
	const longest = 12 // of those that are looked for
	rest := strings.TrimLeft(r.text[i:min(len(r.text), i+longest+2)], ", ")
	if skipped := min(len(r.text), i+longest+2) - i - len(rest); skipped == 0 || skipped > 2 {
		return "", i
	}
	start := min(len(r.text), i+longest+2) - len(rest)
	n := strings.IndexFunc(rest, func(c rune) bool {
		return !unicode.IsLetter(c) && !isDigit(c) && c != '\'' && c != ':'
	})
	if n < 0 {
		n = len(rest)
	}
	word = strings.ToLower(rest[:n])
	if short, ok := strings.CutSuffix(word, "'s"); ok {
		word = short
	}
	return word, start + n
}

// isMonth reports whether the token is a month. Some are words as well, such as "may": they
// stand by a number or after a word such as "in".
func isMonth(token, before, next string) bool {
	if !isA("MONTHS", token) || !unicode.IsUpper(rune(token[0])) {
		return false
	}
	switch before {
	case "in", "of", "since", "until", "till", "by", "from", "for", "through", "to", "during", "before", "after":
		return true
	}
	return isNumber(next) || isYear(next) || len(token) > len("march")
}

// isYear reports whether a number is a year of these centuries.
func isYear(s string) bool {
	return len(s) == 4 && all(s, isDigit) && (s[:2] == "19" || s[:2] == "20")
}

// isDate reads 2026-11-22, 2026-11-22T10:00:00Z, 22.11.2026, 11/22/26 and q3.
func isDate(s string) bool {
	if len(s) == 2 && s[0] == 'q' {
		return s[1] >= '1' && s[1] <= '4'
	}
	day, clock, _ := strings.Cut(s, "t")
	if clock != "" && !isDigit(rune(clock[0])) {
		return false
	}
	for _, by := range []string{"-", "/", "."} {
		parts := strings.Split(day, by)
		if len(parts) != 3 && !(len(parts) == 2 && isYear(parts[0]) && by == "-") {
			continue
		}
		digits := 0
		for _, part := range parts {
			if !all(part, isDigit) || part == "" || len(part) > 4 {
				return false
			}
			digits = max(digits, len(part))
		}
		return digits == 4 || by == "/"
	}
	return false
}

// isClock reads 15:30, 3pm and 3:30pm.
func isClock(s string) bool {
	short := strings.TrimSuffix(strings.TrimSuffix(s, "am"), "pm")
	hour, minute, ok := strings.Cut(short, ":")
	return hour != "" && len(hour) <= 2 && all(hour, isDigit) &&
		(ok && len(minute) >= 2 && all(minute, func(c rune) bool { return isDigit(c) || c == ':' }) || !ok && short != s)
}

// longWords returns the words of a date that say more than "pm" or "th".
func longWords(date string) string {
	words := strings.FieldsFunc(date, func(c rune) bool { return !unicode.IsLetter(c) })
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return len(w) < 3 }), " ")
}
