package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// A decoder turns syntax trees into values. What doesn't fit becomes a Problem
// and leaves the value as it was.
type decoder struct {
	env      environment
	source   source
	problems []Problem
	asked    place // where the classifier's server is named
	tls      place // where the last file for TLS is

	// Of the server whose entry is being read:
	name      string   // "" outside of any
	fatal     []string // why it can't be started
	missing   variables
	missingAt int // where the first of them is
}

// A place is a byte of a source.
type place struct {
	source
	offset int
}

// warn reports something that the router can live with.
func (d *decoder) warn(offset int, format string, args ...any) {
	p := d.source.problem(offset, format, args...)
	p.Server = d.name
	d.problems = append(d.problems, p)
}

// reject reports something with which the server, if it is about one, can't be started.
func (d *decoder) reject(offset int, format string, args ...any) {
	d.warn(offset, format, args...)
	d.fatal = append(d.fatal, d.problems[len(d.problems)-1].Message)
}

// fields are the keys that an object may have, each with what takes its member.
type fields map[string]func(hujson.ObjectMember)

// object gives each member of o to its field; null is as good as absent.
// Unknown keys belong to other programs and are ignored, unless they look like
// one of ours.
func (d *decoder) object(o *hujson.Object, known fields) {
	seen := make(map[string]bool)
	for _, m := range o.Members {
		key := keyOf(m)
		if seen[key] {
			d.warn(m.Name.StartOffset, "%q is here twice and the last one counts; remove one", key)
		}
		seen[key] = true
		set, ok := known[key]
		if !ok {
			if meant, ok := nearest(key, slices.Sorted(maps.Keys(known))); ok {
				d.warn(m.Name.StartOffset, "%q is not a key here; did you mean %q?", key, meant)
			}
			continue
		}
		if m.Value.Value.Kind() != 'n' {
			set(m)
		}
	}
}

func keyOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// A reader makes a T of a JSON value. Its error completes the sentence that
// begins with the key: "must be …".
type reader[T any] func(hujson.Value) (T, error)

// misfit is a reader's error about a place inside its value.
type misfit struct {
	offset int
	path   string // from the value to the place
	err    error
}

func (m *misfit) Error() string { return m.path + " " + m.err.Error() }

func inside(offset int, path string, err error) error {
	if m, ok := errors.AsType[*misfit](err); ok {
		return &misfit{m.offset, path + m.path, m.err}
	}
	return &misfit{offset, path, err}
}

// set is the field that reads into to.
func set[T any](d *decoder, to *T, read reader[T]) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		v, err := read(m.Value)
		if err == nil {
			*to = v
			return
		}
		wrong, _ := errors.AsType[*misfit](inside(m.Name.StartOffset, "", err))
		d.reject(wrong.offset, "%q %v", keyOf(m)+wrong.path, wrong.err)
	}
}

// in is the field of an object within the object.
func (d *decoder) in(known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if o, ok := m.Value.Value.(*hujson.Object); ok {
			d.object(o, known)
			return
		}
		d.reject(m.Name.StartOffset, "%q must be an object; write {…}", keyOf(m))
	}
}

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
		return "", fmt.Errorf("must be one of %q", allowed)
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

// number is the text of a JSON number, or "", which no parser takes for one.
func number(v hujson.Value) string {
	if v.Value.Kind() != '0' {
		return ""
	}
	return string(v.Value.(hujson.Literal))
}

// duration reads a string as in time.ParseDuration, or a number, of which the
// dialects have two kinds: Claude Code and Gemini write milliseconds, Cline
// writes seconds. From 1000 on it is taken for milliseconds, below for seconds.
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
