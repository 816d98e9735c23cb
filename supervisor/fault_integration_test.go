//go:build unix

package supervisor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The kind of a fault says why a server does not start.
func TestFaults(t *testing.T) {
	layer.Integration(t)
	f := superviseProcesses(t, t.TempDir())
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	stdio := func(command string, args ...string) config.Server {
		return config.Server{Transport: config.Stdio, Command: command, Args: args, StartTimeout: 20 * time.Second}
	}
	lost := stdio("true")
	lost.Cwd = filepath.Join(dir, "nowhere")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	closed.Close()
	answer := func(code int, header ...string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	https := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(https.Close)
	remote := func(url string) config.Server {
		return config.Server{Transport: config.StreamableHTTP, URL: url, StartTimeout: 20 * time.Second}
	}
	bearer := remote(answer(401))
	bearer.Headers = map[string]string{"Authorization": "Bearer x"}
	f.checkFaults(map[string]faultCase{
		"no file":     {stdio(filepath.Join(dir, "none")), status.Fault{Kind: status.CommandMissing, Command: filepath.Join(dir, "none")}},
		"not allowed": {stdio(write("plain", "x", 0o600)), status.Fault{Kind: status.CommandUnusable, Command: filepath.Join(dir, "plain")}},
		"no program":  {stdio(write("text", "\x00\x01", 0o700)), status.Fault{Kind: status.CommandUnusable, Command: filepath.Join(dir, "text")}},
		"interpreter": {stdio(write("script", "#!/no/such/interpreter\n", 0o700)), status.Fault{Kind: status.InterpreterMissing, Command: filepath.Join(dir, "script")}},
		"no folder":   {lost, status.Fault{Kind: status.FolderMissing, Folder: lost.Cwd}},
		"killed":      {stdio("sh", "-c", "kill -9 $$"), status.Fault{Kind: status.Exited, Code: -1, Signal: "signal: killed"}},
		"refused":     {remote("http://" + closed.Addr().String()), status.Fault{Kind: status.Unreachable, Net: status.ConnectionRefused}},
		"certificate": {remote(https.URL), status.Fault{Kind: status.Unreachable, Net: status.BadCertificate}},
		"no TLS":      {remote(strings.Replace(answer(200), "http:", "https:", 1)), status.Fault{Kind: status.Unreachable, Net: status.NotTLS}},
		"token":       {remote(answer(401)), status.Fault{Kind: status.Unauthorized, Code: 401}},
		"bad token":   {bearer, status.Fault{Kind: status.Unauthorized, Code: 401, HadToken: true}},
		"not there":   {remote(answer(404)), status.Fault{Kind: status.BadStatus, Code: 404}},
		"elsewhere":   {remote(answer(307, "Location", "http://example.invalid/mcp")), status.Fault{Kind: status.Redirected}},
	})
}
