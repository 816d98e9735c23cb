package admin

import (
	"net/http/httptest"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A login comes back to the public URL if the page was opened there, also if a proxy replaces the Host.
func TestIsAtPublicURL(t *testing.T) {
	const public = "https://Example.com/tools"
	for _, test := range []struct {
		public, host, origin string
		want                 bool
	}{
		{public, "example.com", "", true},
		{public, "127.0.0.1:8787", "https://example.com", true}, // as nginx does by default
		{public, "127.0.0.1:8787", "http://127.0.0.1:8787", false},
		{public, "127.0.0.1:8787", "http://example.com", false},
		{public, "127.0.0.1:8787", "null", false},
		{public, "127.0.0.1:8787", "", false},
		{"", "127.0.0.1:8787", "", false},
		{"", "127.0.0.1:8787", "://", false},
	} {
		r := httptest.NewRequest("POST", "http://"+test.host+"/dashboard/servers/a/login", nil)
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		expect.Equal(t, isAt(r, test.public), test.want, "isAt(host %s, origin %q; %q)", test.host, test.origin, test.public)
	}
}
