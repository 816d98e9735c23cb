package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Requests for too much are refused with a reason, and with many names or a long one they have a short answer.
func TestHostileQueries(t *testing.T) {
	s := open(t, fake("a", "echo"))
	long := strings.Repeat("a-at-.", 10_000)
	pairs := strings.TrimSuffix(strings.Repeat(`"a=1",`, 8000), ",")
	names := func(name string, n int) string { return strings.TrimSuffix(strings.Repeat(`"`+name+`",`, n), ",") }
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string // in the refusal
	}{
		{"POST", "/dashboard/tools", `{"servers":[` + names("a", 5000) + `]}`, http.StatusBadRequest, "5000 servers or capabilities are too many; name at most 200 at a time"},
		{"POST", "/dashboard/tools", `{"words":"echo","capabilities":[` + names("x", 5000) + `]}`, http.StatusBadRequest, "5000 servers or capabilities are too many"},
		{"POST", "/dashboard/tools", `{"limit":9223372036854775807,"capabilities":[` + names("x", 200) + `]}`, http.StatusOK, ""},
		{"POST", "/dashboard/tools", `{"limit":9223372036854775807,"words":"` + long + `"}`, http.StatusOK, ""},
		{"POST", "/dashboard/tools", `{"name":"` + long + `"}`, http.StatusNotFound, ""},
		{"GET", "/dashboard/tool?id=" + long, "", http.StatusNotFound, ""},
		{"POST", "/dashboard/why", `{"tool":"` + long + `"}`, http.StatusOK, ""},
		{"POST", "/dashboard/why", `{"tool":"a:echo","task":"` + long + `"}`, http.StatusOK, ""},
		{"POST", "/dashboard/call", `{"tool":"a:echo","pairs":[` + pairs + `]}`, http.StatusBadRequest, "8000 KEY=VALUE pairs are too many"},
		{"POST", "/dashboard/route", `{"task":"echo","pairs":[` + pairs + `]}`, http.StatusBadRequest, "8000 KEY=VALUE pairs are too many"},
		{"POST", "/dashboard/route", `{"task":"echo","capabilities":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]}`, http.StatusInternalServerError, "find: a list of 5000 names is too long"},
		{"POST", "/dashboard/classify", `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusBadRequest, "too large"},
	} {
		var answer map[string]any
		status := s.ask(test.method, test.path, test.body, &answer)
		if text := fmt.Sprint(answer); status != test.status || !strings.Contains(text, test.want) || len(text) > 10*len(long) {
			t.Errorf("%s %.60s: status %d, %d bytes, %.300s; want %d, %s", test.method, test.path, status, len(text), text, test.status, test.want)
		}
	}
}
