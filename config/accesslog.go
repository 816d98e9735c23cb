package config

import (
	"errors"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// An Audit says whether and where the audit log is written.
type Audit struct {
	Off      bool   // "audit": false
	File     string // absolute path; "" is audit.jsonl in the data folder, of a router that serves over HTTP
	MaxSize  int64  `key:"maxSize"`  // bytes of a file, after which another is begun; default 10 MiB
	MaxFiles int    `key:"maxFiles"` // number of files that are kept, including the current one; default 10
}

// logField returns the function that decodes a log: the path of its file, or an object with the
// keys of log. Without a usable path, what otherwise says is reported.
func logField(d *decoder, log any, file *string, name, otherwise, mustBe string) func(hujson.ObjectMember) {
	path := func(v hujson.Value) (string, error) {
		s, missing, err := d.complete(v)
		if missing.any() {
			d.mistake(v.StartOffset, "%s: %s", otherwise, missing)
			return "", nil
		}
		if s = d.absolute(s); s != "" {
			d.claim(v.StartOffset, claim{kind: claimLog, text: name, path: s})
		}
		return s, err
	}
	whole := func(v hujson.Value) (string, error) {
		s, err := path(v)
		if err != nil {
			err = errors.New(mustBe)
		}
		return s, err
	}
	return orObject(d, set(d, file, whole), d.keys(log, fields{"file": set(d, file, path)}))
}

// accessLogField returns the function that decodes "accessLog". After a mistake there is no access log.
func accessLogField(d *decoder, to *AccessLog) func(hujson.ObjectMember) {
	field := logField(d, to, &to.File, "accessLog", "no access log is written",
		`must be the path of a file, or an object; write "access.log" or {"file": "access.log", "arguments": true}`)
	return func(m hujson.ObjectMember) {
		field(m)
		if m.Value.Value.Kind() == '{' && to.File == "" && !hasMember(m.Value, "file") {
			d.mistake(m.Name.StartOffset, `"accessLog" names no file, so none is written; write "file": "access.log"`)
		}
	}
}

// auditField returns the function that decodes "audit", which may be false too. After a mistake the
// log is written where it is by default.
func auditField(d *decoder, to *Audit) func(hujson.ObjectMember) {
	field := logField(d, to, &to.File, "audit", "the audit log is written to its default file",
		`must be the path of a file, an object, or false; write "audit.jsonl" or {"file": "audit.jsonl", "maxFiles": 10}`)
	return func(m hujson.ObjectMember) {
		if to.Off = m.Value.Value.Kind() == 'f'; !to.Off {
			field(m)
		}
	}
}

// hasMember reports whether the object has the member.
func hasMember(object hujson.Value, key string) bool {
	_, ok := jsonc.Member(object.Value.(*hujson.Object), key)
	return ok
}
