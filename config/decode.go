package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A decoder turns syntax trees into values. A value that does not fit becomes a Problem,
// and its destination stays as it was.
type decoder struct {
	env      environment
	source   source
	problems []Problem // the first maxProblems
	found    int       // how many problems there are
	patterns int       // bytes of regular expressions
	strange  int       // how many unknown keys were compared with the known ones
	asked    place     // of the name of the classifier's server
	tls      place     // of the last key that names a file for TLS

	envFiles map[string]envFile // that were read, by their paths

	shortTokens []place // of the last "tokens"

	// The entry that is decoded now:
	name      string    // "" outside of entries
	fatal     []string  // why the server can't be started
	missing   variables // that are not set
	missingAt int       // place of the first of these
}

// A place is a byte of a source.
type place struct {
	source
	offset int
}

const (
	maxProblems = 100  // that are kept of all files
	maxFatal    = 10   // reasons that are kept why one server can't be started
	maxStrange  = 1000 // unknown keys that are compared with the known ones
	maxQuoted   = 300  // bytes of a word of the file in a message
)

// warn reports a mistake. The server, if it concerns one, can be started all the same.
func (d *decoder) warn(offset int, format string, args ...any) {
	if d.found++; d.found > maxProblems {
		return
	}
	p := d.source.problem(offset, format, args...)
	p.Server = d.name
	d.problems = append(d.problems, p)
}

// reject reports a mistake. The server, if it concerns one, can't be started.
func (d *decoder) reject(offset int, format string, args ...any) {
	d.warn(offset, format, args...)
	if len(d.fatal) < maxFatal {
		d.fatal = append(d.fatal, message(format, args...))
	}
}

// message is the text of a problem. Long words of the file are cut.
func message(format string, args ...any) string {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = short(arg)
		case error:
			args[i] = short(arg.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

func short(word string) string {
	if len(word) <= maxQuoted {
		return word
	}
	return strings.ToValidUTF8(word[:maxQuoted], "") + "…"
}

// fields are the keys that an object may have, each with the function that decodes it.
type fields map[string]func(hujson.ObjectMember)

// object decodes the members of o. A member that is null counts as absent. Unknown keys
// belong to other programs and are ignored, unless they look like a misspelled known key.
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
			d.suggest(m, known)
			continue
		}
		if m.Value.Value.Kind() != 'n' {
			set(m)
		}
	}
}

// suggest reports an unknown key that is probably a misspelled known one.
func (d *decoder) suggest(m hujson.ObjectMember, known fields) {
	if d.strange++; d.strange > maxStrange {
		return
	}
	key := keyOf(m)
	if meant, ok := nearest(key, slices.Sorted(maps.Keys(known))); ok {
		d.warn(m.Name.StartOffset, "the key %q is not known; did you mean %q?", key, meant)
	}
}

func keyOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// A reader makes a T of a JSON value. Its error completes a sentence that begins with the
// key: "must be …".
type reader[T any] func(hujson.Value) (T, error)

// A misfit is a reader's error about a place inside its value.
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

// set returns the function that decodes a member into to.
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

// objectField returns the function that decodes an object within the object.
func objectField(d *decoder, known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if o, ok := m.Value.Value.(*hujson.Object); ok {
			d.object(o, known)
			return
		}
		d.reject(m.Name.StartOffset, "%q must be an object; write {…}", keyOf(m))
	}
}

// orObject returns the function that decodes a member that may also be an object.
func orObject(d *decoder, field func(hujson.ObjectMember), known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if m.Value.Value.Kind() == '{' {
			objectField(d, known)(m)
			return
		}
		field(m)
	}
}
