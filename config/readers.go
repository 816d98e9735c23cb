package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/typo"
)

func text(v hujson.Value) (string, error) {
	if s, ok := jsonc.Text(v); ok {
		return s, nil
	}
	return "", errors.New("must be a string; put it in quotes")
}

func boolean(v hujson.Value) (bool, error) {
	if lit, ok := v.Value.(hujson.Literal); ok && (lit.Kind() == 't' || lit.Kind() == 'f') {
		return lit.Kind() == 't', nil
	}
	return false, errors.New("must be true or false, without quotes")
}

// word reads a string that fits the schema.
func (n *node) word(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil || len(n.Enum) > 0 {
		err = n.fits(s, err == nil)
	}
	return s, err
}

// fits says why a string does not fit. isText is false if it stands for another value.
func (n *node) fits(s string, isText bool) error {
	if len(n.Enum) > 0 {
		return n.among(s, isText)
	}
	if n.Says != "" && (len(s) < n.MinLength || n.MaxLength > 0 && len(s) > n.MaxLength || strings.ContainsFunc(s, unprintable) || n.Pattern != nil && !n.matches(s)) {
		return errors.New(n.Says)
	}
	return nil
}

// among says why a string is none of the words of the schema.
func (n *node) among(s string, isText bool) error {
	var words, quoted []string
	for _, word := range n.Enum {
		if word, ok := word.(string); ok {
			words, quoted = append(words, word), append(quoted, strconv.Quote(word))
		}
	}
	last := len(words) - 1
	says := fmt.Sprintf("must be %s or %s", strings.Join(quoted[:last], ", "), quoted[last])
	like, ok := typo.Nearest(s, words)
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

// integer reads a whole number that fits the schema.
func (n *node) integer(v hujson.Value) (int, error) {
	i, err := strconv.Atoi(number(v))
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

// number reads a number that fits the schema.
func (n *node) number(v hujson.Value) (float64, error) {
	f, err := strconv.ParseFloat(number(v), 64)
	if err != nil || n.Minimum != nil && f < float64(*n.Minimum) || n.Maximum != nil && f > float64(*n.Maximum) ||
		n.Above != nil && f <= float64(*n.Above) || n.Below != nil && f >= float64(*n.Below) {
		return 0, errors.New(n.Says)
	}
	return f, nil
}

// number returns the text of a JSON number, or "" for any other value.
func number(v hujson.Value) string {
	if v.Value.Kind() != '0' {
		return ""
	}
	return string(v.Value.(hujson.Literal))
}

// repaired returns a member with the numbers and booleans in its array or object as strings, and
// without what is null. Clients take such values, so they are only warned of.
func (d *reports) repaired(m hujson.ObjectMember) hujson.ObjectMember {
	key := jsonc.Key(m)
	m.Value = textsOf(m.Value, func(offset int, path string, left bool) {
		if left {
			d.warn(offset, "%q is null, so it is left out; remove it, or write a string", key+path)
			return
		}
		d.warn(offset, "%q is no string, and is read as one; put it in quotes", key+path) // without the value, which may be secret
	})
	return m
}

// textsOf returns an array or an object with its numbers and booleans as strings, and without
// what is null. repaired, unless it is nil, is called with the place of each of these, its path
// in v, and whether it is left out. Other values are returned as they are.
func textsOf(v hujson.Value, repaired func(offset int, path string, left bool)) hujson.Value {
	repair := func(v *hujson.Value, offset int, path string) (keep bool) {
		kind := v.Value.Kind()
		if !strings.ContainsRune("0tfn", rune(kind)) {
			return true
		}
		if keep = kind != 'n'; keep {
			v.Value = hujson.String(string(v.Value.(hujson.Literal)))
		}
		if repaired != nil {
			repaired(offset, path, !keep)
		}
		return keep
	}
	switch value := v.Value.(type) {
	case *hujson.Array:
		a := *value
		a.Elements = nil
		for i, e := range value.Elements {
			if repair(&e, e.StartOffset, fmt.Sprintf("[%d]", i)) {
				a.Elements = append(a.Elements, e)
			}
		}
		v.Value = &a
	case *hujson.Object:
		o := *value
		o.Members = nil
		for _, m := range value.Members {
			if repair(&m.Value, m.Name.StartOffset, "."+jsonc.Key(m)) {
				o.Members = append(o.Members, m)
			}
		}
		v.Value = &o
	}
	return v
}

// root reads a folder, or a file URI.
func (d texts) root(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	switch scheme, _, isURI := strings.Cut(s, "://"); {
	case err != nil || isURI && scheme == "file":
		return s, err
	case s == "" || isURI:
		return "", errors.New(`must be a folder or a file URI; write "./src" or "file:///home/ann/src"`)
	}
	return d.absolute(s), nil
}

// duration reads a string as in time.ParseDuration, or a number. A number of at least 1000
// is in milliseconds, as in Claude Code and Gemini; a smaller one in seconds, as in Cline.
func (n *node) duration(v hujson.Value) (time.Duration, error) {
	s, err := text(v)
	if err != nil {
		if s = number(v); s == "" {
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
	}
	return t, nil
}

// size reads bytes: a number, or a string such as "512KiB" or "16MB".
func size(v hujson.Value) (int64, error) {
	s, err := text(v)
	if err != nil {
		s = number(v)
	}
	digits := strings.TrimRight(s, "BKMGikmgb ")
	unit, known := map[string]int64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}[strings.ToLower(strings.TrimSpace(s[len(digits):]))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 1 || n > math.MaxInt64/unit {
		return 0, errors.New(`must be a size; write it like "16MiB", or a number of bytes`)
	}
	return n * unit, nil
}

func transport(v hujson.Value) (Transport, error) {
	s, err := text(v)
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) {
	case "stdio", "local":
		return Stdio, err
	case "http", "streamablehttp":
		return StreamableHTTP, err
	case "sse":
		return SSE, err
	case "ws", "websocket":
		return "", errors.New(`can't be a WebSocket; write "http" and the server's http url`)
	}
	return "", errors.New(`must be "stdio", "http" or "sse"`)
}

// pattern reads a pattern of package glob.
func pattern(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil {
		err = checkPattern(s)
	}
	return s, err
}

func checkPattern(s string) error {
	switch _, err := glob.Parse(s); {
	case errors.Is(err, glob.ErrTooLong):
		return fmt.Errorf("must have at most %d bytes; write a shorter pattern with *", glob.MaxLength)
	case err != nil:
		return errors.New(`must be a name or a pattern such as "read_*"; close every [, and write \\ before a [ that is meant literally`)
	}
	return nil
}

// A Rate limits the requests of one client. The zero value is no limit.
type Rate struct {
	PerSecond float64 // on average
	Burst     int     // at once
}

// units are the units of time in a rate, by their spellings.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
}

// rate reads "100/s", "600/m" or "100/s burst 200"; "" is no limit. The default burst is the
// number of requests of one second, and at least one.
func rate(v hujson.Value) (Rate, error) {
	s, err := text(v)
	if err != nil || strings.TrimSpace(s) == "" {
		return Rate{}, err
	}
	bad := errors.New(`must be a rate; write it like "100/s", "600/m" or "100/s burst 200"`)
	said, burst, hasBurst := strings.Cut(strings.ToLower(s), "burst")
	count, per, ok := strings.Cut(said, "/")
	unit := units[strings.TrimSpace(per)]
	n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if !ok || unit == 0 || err != nil || !(n > 0 && n <= 1e9) {
		return Rate{}, bad
	}
	r := Rate{PerSecond: n / unit.Seconds()}
	r.Burst = int(math.Ceil(r.PerSecond))
	if hasBurst {
		if r.Burst, err = strconv.Atoi(strings.TrimSpace(burst)); err != nil || r.Burst < 1 {
			return Rate{}, bad
		}
	}
	return r, nil
}
