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
		audit    config.Audit
		data     string
		overHTTP bool
		want     string
	}{
		"over HTTP":              {config.Audit{}, "/data", true, filepath.Join("/data", "audit.jsonl")},
		"over HTTP without data": {config.Audit{}, "", true, ""},
		"over stdio":             {config.Audit{}, "/data", false, ""},
		"named":                  {named, "/data", false, "/logs/a.jsonl"},
		"off":                    {off, "/data", true, ""},
	} {
		o := AuditOptions(config.Config{Router: config.Router{Audit: c.audit}}, c.data, c.overHTTP)
		expect.Equal(t, o.File, c.want, "%s", name)
	}
}

func TestCheck(t *testing.T) {
	err := CheckAudit(config.Config{Router: config.Router{Audit: config.Audit{File: t.TempDir()}}})
	if err == nil || !strings.HasPrefix(err.Error(), "metarouter.audit: ") {
		t.Errorf("a folder: %v", err)
	}
}
