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

// decode leaves no access log after a mistake.
func (l *AccessLog) decode(d *decoder, at int, v hujson.Value) error {
	err := d.log(v, l, &l.File, "accessLog", "no access log is written")
	if v.Value.Kind() == '{' && l.File == "" && !hasMember(v, "file") {
		d.mistake(at, `"accessLog" names no file, so none is written; write "file": "access.log"`)
	}
	return err
}

// decode has the log written where it is by default after a mistake.
func (a *Audit) decode(d *decoder, _ int, v hujson.Value) error {
	if a.Off = v.Value.Kind() == 'f'; a.Off {
		return nil
	}
	return d.log(v, a, &a.File, "audit", "the audit log is written to its default file")
}

// log decodes a log: the path of its file, or an object with its keys. Without a usable path, it is
// reported what otherwise says.
func (d *decoder) log(v hujson.Value, log any, file *string, name, otherwise string) error {
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
	if o, ok := v.Value.(*hujson.Object); ok {
		d.object(o, d.keys(log, fields{"file": set(d, file, path)}))
		return nil
	}
	if into(file, path, v) != nil {
		return errors.New(nodeAt(d.level).Says)
	}
	return nil
}

// hasMember reports whether the object has the member.
func hasMember(object hujson.Value, key string) bool {
	_, ok := jsonc.Member(object.Value.(*hujson.Object), key)
	return ok
}
