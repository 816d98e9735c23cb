package dashboard

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The page's files are there, folders are not, and a browser has to ask only whether
// they have changed.
func TestFiles(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", Index)
	mux.HandleFunc("GET /dashboard/page/{file...}", File)
	get := func(method, path string, header ...string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Result()
	}
	for path, want := range map[string]int{
		"/": 200, "/dashboard/page/app.js": 200, "/dashboard/page/vendor/lit-html/lit-html.js": 200,
		"/dashboard/page/": 404, "/dashboard/page/vendor": 404, "/dashboard/page/vendor/": 404, "/dashboard/page/vendor/uplot/dist/": 404,
		"/dashboard/page/..%2fpage.go": 404, "/dashboard/page/%2e%2e/page.go": 404, "/dashboard/page/nothing.js": 404, "/dashboard": 404,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got := get(method, path).StatusCode; got != want && (got < 300 || got > 399) {
				t.Errorf("%s %s: %d, want %d", method, path, got, want)
			}
		}
	}
	first := get(http.MethodGet, "/dashboard/page/app.js")
	if h := first.Header; h.Get("Content-Security-Policy") == "" || h.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") {
		t.Errorf("%v", h)
	}
	if again := get(http.MethodGet, "/dashboard/page/app.js", "If-None-Match", first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("the same file again: %d", again.StatusCode)
	}
}

// The page writes hidden characters of a result as their numbers.
func TestPageShowsHiddenCharacters(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	source, err := page.ReadFile("page/plain.js")
	expect.OK(t, err)
	script := string(source) + `
const cases = [["a\u202eb\u{E0041}\u001b[2J", "a⟨U+202E⟩b⟨U+E0041⟩⟨U+001B⟩[2J"], ["a\u200db\ufe0f", "a⟨U+200D⟩b⟨U+FE0F⟩"]];
for (const plain of ["می\u200cخواهم", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "Größe\n\t日本"]) cases.push([plain, plain]);
for (const [text, want] of cases) if (shown(text) !== want) console.log(JSON.stringify([text, shown(text), want]));`
	cmd := exec.Command(node, "--input-type=module")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
