package admin

import (
	"net/http/httptest"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A login comes back to this machine if the page was opened here, and not through a proxy that replaces the Host.
func TestIsLocal(t *testing.T) {
	for _, test := range []struct {
		host, origin, public string
		want                 bool
	}{
		{"127.0.0.1:8787", "", "", true},
		{"127.0.0.1:8787", "http://127.0.0.1:8787", "https://example.com", true},
		{"localhost", "", "", true},
		{"127.0.0.1:8787", "https://example.com", "https://example.com", false}, // as nginx does by default
		{"127.0.0.1:8787", "null", "", false},
		{"127.0.0.1:8787", "://", "", false},
		{"example.com", "", "", false},
		{"localhost:9000", "http://localhost:9000", "http://localhost:9000", false}, // the port of a container
	} {
		r := httptest.NewRequest("POST", "http://"+test.host+"/dashboard/servers/a/login", nil)
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		expect.Equal(t, isLocal(r, test.public), test.want, "%+v", test)
	}
}
