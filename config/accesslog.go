package config

import (
	"errors"

	"github.com/tailscale/hujson"
)

// accessLogField decodes the access log: the path of its file, or an object. Without a
// usable path there is no access log, and a Problem says why.
func accessLogField(d *decoder, to *AccessLog) func(hujson.ObjectMember) {
	file := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = d.expand(s, &missing); missing.any() {
			d.mistake(v.StartOffset, "no access log is written: %s", missing)
			return "", nil
		}
		s = d.absolute(s)
		d.claim(v.StartOffset, claim{kind: claimLog, path: s})
		return s, nil
	}
	known := fields{
		"file":      set(d, &to.File, file),
		"arguments": set(d, &to.Arguments, boolean),
		"results":   set(d, &to.Results, boolean),
		"maxSize":   set(d, &to.MaxSize, size),
		"maxFiles":  set(d, &to.MaxFiles, atLeast(1)),
	}
	whole := func(v hujson.Value) (string, error) {
		s, err := file(v)
		if err != nil {
			err = errors.New(`must be the path of a file, or an object; write "access.log" or {"file": "access.log", "arguments": true}`)
		}
		return s, err
	}
	return func(m hujson.ObjectMember) {
		orObject(d, set(d, &to.File, whole), known)(m)
		if m.Value.Value.Kind() == '{' && to.File == "" && !hasMember(m.Value, "file") {
			d.mistake(m.Name.StartOffset, `"accessLog" names no file, so none is written; write "file": "access.log"`)
		}
	}
}

// hasMember reports whether the object has the member.
func hasMember(object hujson.Value, key string) bool {
	for _, m := range object.Value.(*hujson.Object).Members {
		if keyOf(m) == key {
			return true
		}
	}
	return false
}
