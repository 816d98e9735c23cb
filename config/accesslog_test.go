package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAccessLog(t *testing.T) {
	for _, tt := range []struct {
		said string
		want AccessLog
		says string // a problem
	}{
		{`""`, AccessLog{"", false, false, 100 << 20, 5}, ""},
		{`"logs/calls.jsonl"`, AccessLog{"/project/logs/calls.jsonl", false, false, 100 << 20, 5}, ""},
		{`"~/calls.jsonl"`, AccessLog{"/home/me/calls.jsonl", false, false, 100 << 20, 5}, ""},
		{`"/var/${TOKEN}"`, AccessLog{"/var/sk-secret", false, false, 100 << 20, 5}, ""},
		{`{"file": "a", "arguments": true, "results": true, "maxSize": "1MiB", "maxFiles": 2}`, AccessLog{"/project/a", true, true, 1 << 20, 2}, ""},
		{`{"arguments": true}`, AccessLog{"", true, false, 100 << 20, 5}, "names no file"},
		{`"${NOT_SET}/a"`, AccessLog{"", false, false, 100 << 20, 5}, "no access log is written: "},
		{`7`, AccessLog{"", false, false, 100 << 20, 5}, "must be the path of a file, or an object"},
		{`{"file": "a", "maxFiles": 0}`, AccessLog{"/project/a", false, false, 100 << 20, 5}, `"maxFiles" must be a whole number of at least 1`},
		{`{"file": "a", "maxSize": "much"}`, AccessLog{"/project/a", false, false, 100 << 20, 5}, `"maxSize" must be a size`},
		{`{"file": "a", "maxfile": 3}`, AccessLog{"/project/a", false, false, 100 << 20, 5}, `did you mean`},
	} {
		c := loadText(t, fmt.Sprintf(`{"metarouter": {"accessLog": %s}}`, tt.said))
		expect.Equal(t, c.Router.AccessLog, tt.want, "%s", tt.said)
		said := ""
		for _, p := range c.Problems {
			said += p.Message
		}
		if (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
			t.Errorf("%s: says %q, want %q", tt.said, said, tt.says)
		}
	}
}
