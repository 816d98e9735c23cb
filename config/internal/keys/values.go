package keys

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

// Text reads a string.
func Text(v hujson.Value) (string, error) {
	if s, ok := jsonc.Text(v); ok {
		return s, nil
	}
	return "", errors.New("must be a string; put it in quotes")
}

// Boolean reads true or false.
func Boolean(v hujson.Value) (bool, error) {
	if lit, ok := v.Value.(hujson.Literal); ok && (lit.Kind() == 't' || lit.Kind() == 'f') {
		return lit.Kind() == 't', nil
	}
	return false, errors.New("must be true or false, without quotes")
}

// Word reads a string that fits the schema.
func (n *Node) Word(v hujson.Value) (string, error) {
	s, err := Text(v)
	if err == nil || len(n.Enum) > 0 {
		err = n.fits(s, err == nil)
	}
	return s, err
}

// Fits says why a string does not fit the schema; nil if it does.
func (n *Node) Fits(s string) error { return n.fits(s, true) }

// fits is Fits for a value that may be no string: then s is "", and isText is false.
func (n *Node) fits(s string, isText bool) error {
	if len(n.Enum) > 0 {
		return n.among(s, isText)
	}
	if n.Says != "" && (len(s) < n.MinLength || n.MaxLength > 0 && len(s) > n.MaxLength || strings.ContainsFunc(s, Unprintable) || n.Pattern != nil && !n.matches(s)) {
		return errors.New(n.Says)
	}
	return nil
}

// among says why a string is not one of the words of the schema.
func (n *Node) among(s string, isText bool) error {
	var words, quoted []string
	for _, word := range n.Enum {
		if word, ok := word.(string); ok {
			words, quoted = append(words, word), append(quoted, strconv.Quote(word))
		}
	}
	last := len(words) - 1
	says := fmt.Sprintf("must be %s or %s", strings.Join(quoted[:last], ", "), quoted[last])
	like, ok := prose.Nearest(s, words)
	switch {
	case isText && slices.Contains(words, s):
		return nil
	case n.Says != "":
		return errors.New(n.Says)
	case isText && ok:
		return fmt.Errorf("%s; did you mean %q?", says, like)
	}
	return errors.New(says)
}

// Integer reads a whole number that fits the schema.
func (n *Node) Integer(v hujson.Value) (int, error) {
	i, err := strconv.Atoi(numeral(v))
	switch {
	case err == nil && (n.Minimum == nil || i >= *n.Minimum) && (n.Maximum == nil || i <= *n.Maximum):
		return i, nil
	case n.Says != "":
		return 0, errors.New(n.Says)
	case n.Minimum == nil:
		return 0, errors.New("must be a whole number, without quotes")
	}
	return 0, fmt.Errorf("must be a whole number of at least %d, without quotes", *n.Minimum)
}

// Number reads a number that fits the schema.
func (n *Node) Number(v hujson.Value) (float64, error) {
	f, err := strconv.ParseFloat(numeral(v), 64)
	if err != nil || n.Minimum != nil && f < float64(*n.Minimum) || n.Maximum != nil && f > float64(*n.Maximum) ||
		n.Above != nil && f <= float64(*n.Above) || n.Below != nil && f >= float64(*n.Below) {
		return 0, errors.New(n.Says)
	}
	return f, nil
}

// numeral returns the text of a JSON number, or "" for any other value.
func numeral(v hujson.Value) string {
	if v.Value.Kind() != '0' {
		return ""
	}
	return string(v.Value.(hujson.Literal))
}

// Unprintable reports whether a character can't stand in a line of a log.
func Unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// Duration reads a string as in time.ParseDuration, or a number. A number of at least 1000
// is in milliseconds, as in Claude Code and Gemini; a smaller one in seconds, as in Cline.
func (n *Node) Duration(v hujson.Value) (time.Duration, error) {
	s, err := Text(v)
	if err != nil {
		if s = numeral(v); s == "" {
			s = "?"
		} else if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 1000 {
			s = strconv.FormatFloat(f, 'f', -1, 64) + "ms"
		} else if err == nil {
			s = strconv.FormatFloat(f, 'f', -1, 64) + "s"
		}
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, errors.New(`must be a duration; write it like "30s" or "5m"`)
	case t <= 0 && n.Above != nil:
		return 0, errors.New(`must be longer than 0; write it like "30s" or "5m"`)
	case t < 0:
		return 0, errors.New("must not be negative")
	case n.Maximum != nil && t > time.Duration(*n.Maximum)*time.Second:
		return 0, fmt.Errorf(`must be at most "%ds"`, *n.Maximum)
	}
	return t, nil
}

// Size reads bytes: a number, or a string such as "512KiB" or "16MB".
func (n *Node) Size(v hujson.Value) (int64, error) {
	s, err := Text(v)
	if err != nil {
		s = numeral(v)
	}
	digits := strings.TrimRight(s, "BKMGikmgb ")
	unit, known := map[string]int64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}[strings.ToLower(strings.TrimSpace(s[len(digits):]))]
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || size < 1 || size > math.MaxInt64/unit {
		return 0, errors.New(`must be a size; write it like "16MiB", or a number of bytes`)
	}
	if size *= unit; n.Maximum != nil && size > int64(*n.Maximum) {
		return 0, fmt.Errorf(`must be at most "%dMiB"`, *n.Maximum>>20)
	}
	return size, nil
}

// units are the units of time in a rate, by their spellings.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
}

// Rate reads "100/s", "600/m" or "100/s burst 200": how many in each second, and how many at once; ""
// is no limit. The default burst is the number of one second, and at least one.
func Rate(v hujson.Value) (r rate.Limit, err error) {
	s, err := Text(v)
	if err != nil || strings.TrimSpace(s) == "" {
		return r, err
	}
	bad := errors.New(`must be a rate; write it like "100/s", "600/m" or "100/s burst 200"`)
	limit, most, hasBurst := strings.Cut(strings.ToLower(s), "burst")
	count, per, ok := strings.Cut(limit, "/")
	unit := units[strings.TrimSpace(per)]
	n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if !ok || unit == 0 || err != nil || !(n > 0 && n <= 1e9) {
		return r, bad
	}
	r = rate.Limit{PerSecond: n / unit.Seconds()}
	r.Burst = int(math.Ceil(r.PerSecond))
	if hasBurst {
		if r.Burst, err = strconv.Atoi(strings.TrimSpace(most)); err != nil || r.Burst < 1 {
			return rate.Limit{}, bad
		}
	}
	return r, nil
}
