package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The page is for browsers that know the key and use the address that was printed.
func TestRequireKey(t *testing.T) {
	const address = "127.0.0.1:1"
	h := RequireKey("k3y", address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") }))
	visit := func(host, path, cookie string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: keyCookie(address), Value: cookie})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	for _, test := range []struct {
		host, path, cookie string
		status             int
	}{
		{address, "/", "", 403},
		{address, "/?key=", "", 403},
		{address, "/?key=other", "", 403},
		{address, "/dashboard/events?key=k3y", "", 403},
		{address, "/", "other", 403},
		{"evil.example", "/?key=k3y", "", 403},
		{"localhost:1", "/", "k3y", 403},
		{address, "/?key=k3y", "", 303},
		{address, "/dashboard/events", "k3y", 200},
	} {
		expect.Equal(t, visit(test.host, test.path, test.cookie).StatusCode, test.status, "%s%s with cookie %q", test.host, test.path, test.cookie)
	}
	cookies := visit(address, "/?key=k3y", "").Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("%v", cookies)
	}
}
