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
)

func text(v hujson.Value) (string, error) {
	if lit, ok := v.Value.(hujson.Literal); ok && lit.Kind() == '"' {
		return lit.String(), nil
	}
	return "", errors.New("must be a string; put it in quotes")
}

func boolean(v hujson.Value) (bool, error) {
	if k := v.Value.Kind(); k == 't' || k == 'f' {
		return k == 't', nil
	}
	return false, errors.New("must be true or false, without quotes")
}

func oneOf[T ~string](first T, others ...T) reader[T] {
	allowed := append([]T{first}, others...)
	return func(v hujson.Value) (T, error) {
		s, err := text(v)
		if err == nil && slices.Contains(allowed, T(s)) {
			return T(s), nil
		}
		quoted := make([]string, len(allowed))
		for i, word := range allowed {
			quoted[i] = strconv.Quote(string(word))
		}
		last := len(quoted) - 1
		words := make([]string, len(allowed))
		for i, word := range allowed {
			words[i] = string(word)
		}
		if like, ok := Similar(s, words); err == nil && ok {
			return "", fmt.Errorf("must be %s or %s; did you mean %q?", strings.Join(quoted[:last], ", "), quoted[last], like)
		}
		return "", fmt.Errorf("must be %s or %s", strings.Join(quoted[:last], ", "), quoted[last])
	}
}

func atLeast(least int) reader[int] {
	return func(v hujson.Value) (int, error) {
		n, err := strconv.Atoi(number(v))
		if err != nil || n < least {
			if least == math.MinInt {
				return 0, errors.New("must be a whole number, without quotes")
			}
			return 0, fmt.Errorf("must be a whole number of at least %d, without quotes", least)
		}
		return n, nil
	}
}

func fraction(v hujson.Value) (float64, error) {
	f, err := strconv.ParseFloat(number(v), 64)
	if err != nil || f < 0 || f > 1 {
		return 0, errors.New("must be a number from 0 to 1")
	}
	return f, nil
}

func betweenZeroAndOne(v hujson.Value) (float64, error) {
	f, err := fraction(v)
	if err != nil || f == 0 || f == 1 {
		return 0, errors.New("must be a number between 0 and 1, such as 0.22")
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

// texts returns field with numbers and booleans in the array or the object that it decodes as
// strings, and without what is null. Clients take such values, so they are only warned of.
func (d *decoder) texts(field func(hujson.ObjectMember)) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		key := keyOf(m)
		m.Value = textsOf(m.Value, func(offset int, path string, left bool) {
			if left {
				d.warn(offset, "%q is null, so it is left out; remove it, or write a string", key+path)
				return
			}
			d.warn(offset, "%q is no string, and is read as one; put it in quotes", key+path) // without the value, which may be secret
		})
		field(m)
	}
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
			if repair(&m.Value, m.Name.StartOffset, "."+keyOf(m)) {
				o.Members = append(o.Members, m)
			}
		}
		v.Value = &o
	}
	return v
}

// roots reads the roots of a server: true for its clients', false for no roots, or an array of
// folders and file URIs.
func (d *decoder) roots(v hujson.Value) ([]string, error) {
	if clients, err := boolean(v); err == nil && clients {
		return nil, nil
	} else if err == nil {
		return []string{}, nil
	}
	if v.Value.Kind() != '[' {
		return nil, errors.New(`must be false, true or an array of folders; write ["./src"], or false for no roots`)
	}
	all, err := list(func(v hujson.Value) (string, error) {
		s, err := d.expanded(v)
		switch scheme, _, isURI := strings.Cut(s, "://"); {
		case err != nil || isURI && scheme == "file":
			return s, err
		case s == "" || isURI:
			return "", errors.New(`must be a folder or a file URI; write "./src" or "file:///home/ann/src"`)
		}
		return d.absolute(s), nil
	})(v)
	return append([]string{}, all...), err
}

// duration reads a string as in time.ParseDuration, or a number. A number of at least 1000
// is in milliseconds, as in Claude Code and Gemini; a smaller one in seconds, as in Cline.
func duration(least time.Duration) reader[time.Duration] {
	return func(v hujson.Value) (time.Duration, error) {
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
		case t < least && least > 0:
			return 0, errors.New(`must be longer than 0; write it like "30s" or "5m"`)
		case t < 0:
			return 0, errors.New("must not be negative")
		}
		return t, nil
	}
}

const (
	positive = time.Duration(1)
	orZero   = time.Duration(0)
)

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

// list reads an array of strings.
func list(read reader[string]) reader[[]string] {
	return func(v hujson.Value) ([]string, error) {
		a, ok := v.Value.(*hujson.Array)
		if !ok {
			return nil, errors.New(`must be an array of strings; write ["…"]`)
		}
		var out []string
		for i, e := range a.Elements {
			s, err := read(e)
			if err != nil {
				return nil, inside(e.StartOffset, fmt.Sprintf("[%d]", i), err)
			}
			out = append(out, s)
		}
		return out, nil
	}
}

// dict reads an object whose keys are free.
func dict[T any](read reader[T]) reader[map[string]T] {
	return func(v hujson.Value) (map[string]T, error) {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, errors.New(`must be an object; write {"…": …}`)
		}
		var out map[string]T
		for _, m := range o.Members {
			t, err := read(m.Value)
			if _, again := out[keyOf(m)]; again {
				err = errTwice
			}
			if err != nil {
				return nil, inside(m.Name.StartOffset, "."+keyOf(m), err)
			}
			if out == nil {
				out = make(map[string]T)
			}
			out[keyOf(m)] = t
		}
		return out, nil
	}
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

// patterned reads an object whose keys are patterns.
func patterned[T any](read reader[T]) reader[map[string]T] {
	return func(v hujson.Value) (map[string]T, error) {
		all, err := dict(read)(v)
		if o, ok := v.Value.(*hujson.Object); ok && err == nil {
			for _, m := range o.Members {
				if bad := checkPattern(keyOf(m)); bad != nil {
					return nil, inside(m.Name.StartOffset, "."+keyOf(m), bad)
				}
			}
		}
		return all, err
	}
}
