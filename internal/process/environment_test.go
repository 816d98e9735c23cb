package process

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	ours := []string{
		"HOME=/home/me", "https_proxy=http://me:pa@ss@proxy:3128", "HTTP_PROXY=me:pass@proxy:3128", "NO_PROXY=localhost",
		"XDG_RUNTIME_DIR=/run/me", "XDG_SESSION_ID=3", "XDG_API_KEY=x", "PWD=/here", "OTHER=o", "GITHUB_TOKEN=t", "METAROUTER_TOKEN=m",
		"UV_INDEX_URL=https://me:pass@pypi.example/simple", "UV_PUBLISH_TOKEN=u", "UV_CACHE_DIR=/c",
		"npm_config_registry=https://npm.example/", "NPM_CONFIG__AUTH=a", "NPM_CONFIG_CACHE=/n",
	}
	always := map[string]string{
		"HOME": "/home/me", "https_proxy": "http://proxy:3128", "HTTP_PROXY": "proxy:3128", "NO_PROXY": "localhost",
		"XDG_RUNTIME_DIR": "/run/me", "XDG_SESSION_ID": "3", DepthVariable: "1", "PATH": "/bin",
	}
	npm := map[string]string{"npm_config_registry": "https://npm.example/", "NPM_CONFIG_CACHE": "/n"}
	uv := map[string]string{"UV_INDEX_URL": "https://pypi.example/simple", "UV_CACHE_DIR": "/c"}
	for name, tc := range map[string]struct {
		command, inherit []string
		own              map[string]string
		want             []map[string]string
	}{
		"any program":        {command: []string{"python", "server.py"}},
		"npx":                {command: []string{"npx", "-y", "pkg"}, want: []map[string]string{npm}},
		"npx.cmd":            {command: []string{`C:\node\npx.cmd`}, want: []map[string]string{npm}},
		"behind cmd":         {command: []string{"cmd", "/c", "npx", "pkg"}, want: []map[string]string{npm}},
		"behind a shell":     {command: []string{"sh", "-c", "exec /usr/bin/uvx pkg"}, want: []map[string]string{uv}},
		"a name":             {inherit: []string{"github_token"}, want: []map[string]string{{"GITHUB_TOKEN": "t"}}},
		"a proxy by name":    {inherit: []string{"HTTP_PROXY"}, want: []map[string]string{{"HTTP_PROXY": "me:pass@proxy:3128"}}},
		"the router's token": {inherit: []string{"METAROUTER_TOKEN"}, own: map[string]string{"METAROUTER_TOKEN": "x", MarkVariable: "x"}},
		"a prefix":           {inherit: []string{"GITHUB_*", "OT*"}, want: []map[string]string{{"OTHER": "o"}}},
		"everything":         {inherit: []string{"*"}, want: []map[string]string{npm, uv, {"OTHER": "o", "PWD": "/here"}}},
		"its own":            {own: map[string]string{"GITHUB_TOKEN": "mine", "HOME": "/"}, want: []map[string]string{{"GITHUB_TOKEN": "mine", "HOME": "/"}}},
	} {
		want := maps.Clone(always)
		for _, more := range tc.want {
			maps.Copy(want, more)
		}
		got := make(map[string]string)
		for _, variable := range Environment(ours, tc.inherit, "/bin", tc.own, tc.command) {
			name, value, _ := strings.Cut(variable, "=")
			got[name] = value
		}
		if !maps.Equal(got, want) {
			for _, key := range slices.Sorted(maps.Keys(want)) {
				expect.Equal(t, got[key], want[key], "%s: %s", name, key)
				delete(got, key)
			}
			t.Errorf("%s: too many are %v", name, got)
		}
	}
}
