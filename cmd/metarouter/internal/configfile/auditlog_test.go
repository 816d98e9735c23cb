package configfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestOptions(t *testing.T) {
	named := config.Audit{File: "/logs/a.jsonl", MaxSize: 5, MaxFiles: 2}
	off := named
	off.Off = true
	for name, c := range map[string]struct {
		audit config.Audit
		data  string
		want  string
	}{
		"default":      {config.Audit{}, "/data", filepath.Join("/data", "audit.jsonl")},
		"without data": {config.Audit{}, "", ""},
		"named":        {named, "/data", "/logs/a.jsonl"},
		"off":          {off, "/data", ""},
	} {
		o := AuditOptions(config.Config{Router: config.Router{Audit: c.audit}}, c.data)
		expect.Equal(t, o.File, c.want, "%s", name)
	}
}

func TestCheck(t *testing.T) {
	err := CheckAudit(config.Config{Router: config.Router{Audit: config.Audit{File: t.TempDir()}}})
	if err == nil || !strings.HasPrefix(err.Error(), "metarouter.audit: ") {
		t.Errorf("a folder: %v", err)
	}
}
