package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/reference"
)

// A decoder turns syntax trees into values. A value that does not fit becomes a Problem,
// and its destination stays as it was.
type decoder struct {
	env      environment
	source   source
	problems []Problem // the first maxProblems errors and maxWarnings warnings
	mistakes int       // how many errors there are
	warnings int       // how many warnings there are
	patterns int       // bytes of regular expressions
	strange  int       // how many unknown keys were compared with the known ones
	level    string    // where in the file the decoded object stands, as in keysByLevel
	claims   []claim   // what the files say about the system, for Config.Examine
	asked    place     // of the name of the classifier's server
	tls      place     // of the last key that names a file for TLS

	envFiles map[string]envFile // that were read, by their paths

	tokens         []placedToken       // of the last "tokens"
	oauth          place               // of the last "oauth" of "http"
	issuers        []placedIssuer      // in it
	clientCA       place               // of the last "clientCA"
	certificatesAt place               // of the last "certificates"
	certificates   []placedCertificate // in it
	closed         []closing           // by mistakes about guards
	refused        *Problem            // why the file is not used
	auditAt        place               // of the last file of the audit log
	cluster        clusterText

	profiles    map[string]profilePlace // by the profile's name
	profileName string                  // of the profile that is decoded now; "" outside of profiles

	// The entry that is decoded now:
	name      string    // "" outside of entries
	fatal     []string  // why the server can't be started
	envFile   string    // the path of its envFile, "" for none
	missing   variables // that are not set
	missingAt int       // place of the first of these

	referable  bool                  // the value that is decoded may refer to secrets
	references []reference.Reference // that it has
}

// A place is a byte of a source.
type place struct {
	source
	offset int
}

const (
	maxProblems = 100  // errors that are kept of all files
	maxWarnings = 50   // warnings that are kept of all files
	maxFatal    = 10   // reasons that are kept why one server can't be started
	maxStrange  = 1000 // unknown keys that are compared with the known ones
	maxQuoted   = 300  // bytes of a word of the file in a message
)

// mistake reports an error. The server, if it concerns one, can be started all the same.
func (d *decoder) mistake(offset int, format string, args ...any) {
	if d.mistakes++; d.mistakes <= maxProblems {
		d.report(severityError, offset, format, args...)
	}
}

// reject reports an error. The server, if it concerns one, can't be started.
func (d *decoder) reject(offset int, format string, args ...any) {
	d.mistake(offset, format, args...)
	if len(d.fatal) < maxFatal {
		d.fatal = append(d.fatal, message(format, args...))
	}
}

// warn reports what has no effect, or is probably not as intended.
func (d *decoder) warn(offset int, format string, args ...any) {
	if d.warnings++; d.warnings <= maxWarnings {
		d.report(severityWarning, offset, format, args...)
	}
}

func (d *decoder) report(severity string, offset int, format string, args ...any) {
	p := d.source.problem(offset, format, args...)
	p.Severity, p.Server = severity, d.name
	d.problems = append(d.problems, p)
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

// object decodes the members of o. A member that is null counts as absent, except guards and roots.
// A key that is not known is reported, unless another client knows it.
func (d *decoder) object(o *hujson.Object, known fields) {
	seen := make(map[string]bool)
	at := d.level
	defer func() { d.level = at }()
	for _, m := range o.Members {
		key := keyOf(m)
		path := below(at, key)
		if seen[key] {
			d.guard(d.mistake, path)(m.Name.StartOffset, "%q is here twice; remove one, since only the last one counts", key)
		}
		seen[key] = true
		set, ok := known[key]
		if !ok {
			d.unknown(m, known)
			continue
		}
		if m.Value.Value.Kind() != 'n' {
			d.level = path
			set(m)
			d.level = at
		} else if closes := guardOf(path); closes != "" && closes != theCluster || containerOf(at) != "" || at == "" {
			d.guard(d.refuse, path)(m.Name.StartOffset, "%q must not be null; remove it, or write its value", key)
		}
	}
}

// keyOf returns the key of a member. Most keys have no escapes, and are not decoded.
func keyOf(m hujson.ObjectMember) string {
	lit := m.Name.Value.(hujson.Literal)
	if inner := lit[1 : len(lit)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return lit.String()
}

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
		if n, ok := any(*to).(int); ok && n > 0 && wrong.path == "" {
			wrong.err = fmt.Errorf("%w; write a number such as %d", wrong.err, n)
		}
		d.guard(d.reject, d.level)(wrong.offset, "%q %v", keyOf(m)+wrong.path, wrong.err)
	}
}

// objectField returns the function that decodes an object within the object.
func objectField(d *decoder, known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if o, ok := m.Value.Value.(*hujson.Object); ok {
			d.object(o, known)
			return
		}
		d.guard(d.reject, d.level)(m.Name.StartOffset, "%q must be an object; write {…}", keyOf(m))
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
