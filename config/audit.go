package config

import (
	"errors"

	"github.com/tailscale/hujson"
)

// An Audit says whether and where the audit log is written.
type Audit struct {
	Off      bool   // "audit": false
	File     string // absolute path; "" is audit.jsonl in the data folder, of a router that serves over HTTP
	MaxSize  int64  // bytes of a file, after which another is begun; default 10 MiB
	MaxFiles int    // number of files that are kept, including the current one; default 10
}

// auditField decodes "audit": false, the path of its file, or an object. After a mistake the log
// is written where it is by default.
func auditField(d *decoder, to *Audit) func(hujson.ObjectMember) {
	file := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = d.expand(s, &missing); missing.any() {
			d.mistake(v.StartOffset, "the audit log is written to its default file: %s", missing)
			return "", nil
		}
		if s = d.absolute(s); s != "" {
			d.auditAt = place{d.source, v.StartOffset}
			d.claim(v.StartOffset, claim{kind: claimAudit, path: s})
		}
		return s, nil
	}
	known := fields{
		"file":     set(d, &to.File, file),
		"maxSize":  set(d, &to.MaxSize, size),
		"maxFiles": set(d, &to.MaxFiles, atLeast(1)),
	}
	whole := func(v hujson.Value) (string, error) {
		s, err := file(v)
		if err != nil {
			err = errors.New(`must be the path of a file, an object, or false; write "audit.jsonl" or {"file": "audit.jsonl", "maxFiles": 10}`)
		}
		return s, err
	}
	return func(m hujson.ObjectMember) {
		if to.Off = m.Value.Value.Kind() == 'f'; !to.Off {
			orObject(d, set(d, &to.File, whole), known)(m)
		}
	}
}
