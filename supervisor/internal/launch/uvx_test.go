package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAskUVX(t *testing.T) {
	for line, want := range map[string]string{
		"uvx mcp-server-time --tz UTC":                      "--from mcp-server-time",
		"uvx a[b]@1.2.3 c":                                  "--from a[b]==1.2.3",
		"uvx --from a@1.2 c d":                              "--from a==1.2",
		"uvx --from=a==1.2 c d":                             "--from=a==1.2",
		"uvx -q --with mcp<2 a":                             "-q --with mcp<2 --from a",
		"uv tool run --python 3.12 a":                       "tool run --python 3.12 --from a",
		"uvx a@latest":                                      "",
		"uvx --from a>1 c":                                  "",
		"uvx --from git+https://a.example/b c":              "",
		"uvx ./folder":                                      "",
		"uvx --from a":                                      "",
		"uvx --with-requirements file.txt a":                "",
		"uvx --directory=/d a":                              "",
		"uvx --env-file=.env a":                             "",
		"uvx --index-url=https://a.example/simple -- a":     "",
		"uvx --default-index https://a.example/simple/ a b": "",
	} {
		words := strings.Fields(line)
		use, _ := commandline.PackagesOf(words[0], words[1:])
		got := ""
		if asked, ok := askUVX(process.Command{Args: words[1:]}, use, "/reporter"); ok {
			got = strings.Join(asked.Args, " ")
			want += " /reporter environment"
		}
		expect.Equal(t, got, want, "%s", line)
	}
}

func TestPythonPackageOf(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.MkdirAll(filepath.Join(dir, "lib", "python3.13", "site-packages", "mcp_server.time-2026.1.dist-info"), 0o700))
	for spec, want := range map[string]string{"mcp-server-time": "mcp-server-time@2026.1", "MCP_Server.time[x]==1": "MCP_Server.time@2026.1", "mcp": "", "./mcp-server-time": ""} {
		expect.Equal(t, pythonPackageOf(filepath.Join(dir, "bin", "x"), spec), want, "%s", spec)
	}
	for spec, want := range map[string]string{"a==1.2": "a@1.2", "a@1.2": "a@1.2", "a[b]==1.2": "a@1.2", "a": "", "a>=1.2": "", "a@latest": ""} {
		expect.Equal(t, exactPython(spec), want, "%s", spec)
	}
	for line, want := range map[string]string{"uvx a==1.2": "a@1.2", "uvx --with b a==1.2": "", "uvx --refresh a==1.2": ""} {
		words := strings.Fields(line)
		f, _ := fetchOf(config.Server{Transport: config.Stdio, Command: words[0], Args: words[1:]})
		expect.Equal(t, f.exact(), want, "%s", line)
	}
	if _, ok := askUVX(process.Command{Args: []string{"a"}, Env: []string{"UV_ENV_FILE=.env"}}, commandline.Packages{Specs: []commandline.Package{{Text: "a"}}}, "/reporter"); ok {
		t.Error("variables of a file are kept")
	}
}
