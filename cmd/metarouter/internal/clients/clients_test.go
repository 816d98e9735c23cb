package clients

import (
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// on is a place of that system with these variables and folders.
func on(system, home string, env map[string]string, folders ...string) System {
	return System{
		OS: system, Home: home,
		Env: func(name string) string { return env[name] },
		Glob: func(pattern string) []string {
			var found []string
			for _, folder := range folders {
				unslashed := func(s string) string { return strings.ReplaceAll(s, `\`, "/") }
				if ok, _ := path.Match(unslashed(pattern), unslashed(folder)); ok {
					found = append(found, folder)
				}
			}
			return found
		},
	}
}

func TestFiles(t *testing.T) {
	linux, mac, windows := on("linux", "/home/ada", nil), on("darwin", "/Users/ada", nil), on("windows", `C:\Users\ada`, nil)
	moved := on("linux", "/home/ada", map[string]string{"XDG_CONFIG_HOME": "/conf", "CLAUDE_CONFIG_DIR": "/conf/claude"})
	roaming := on("windows", `C:\Users\ada`, map[string]string{"APPDATA": `D:\Roaming`, "LOCALAPPDATA": `D:\Local`})
	store := on("windows", `C:\Users\ada`, nil, `C:\Users\ada\AppData\Local\Packages\Claude_pzs8sxrjxfjjc\LocalCache\Roaming\Claude`)
	for _, test := range []struct {
		client string
		place  System
		want   string // the first
	}{
		{"claude-desktop", linux, "/home/ada/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", moved, "/conf/Claude/claude_desktop_config.json"},
		{"claude-desktop", mac, "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", windows, `C:\Users\ada\AppData\Roaming\Claude\claude_desktop_config.json`},
		{"claude-desktop", roaming, `D:\Roaming\Claude\claude_desktop_config.json`},
		{"claude-desktop", store, `C:\Users\ada\AppData\Local\Packages\Claude_pzs8sxrjxfjjc\LocalCache\Roaming\Claude\claude_desktop_config.json`},
		{"claude-code", linux, "/home/ada/.claude.json"},
		{"claude-code", moved, "/conf/claude/.claude.json"},
		{"claude-code", mac, "/Users/ada/.claude.json"},
		{"claude-code", windows, `C:\Users\ada\.claude.json`},
		{"cursor", linux, "/home/ada/.cursor/mcp.json"},
		{"cursor", mac, "/Users/ada/.cursor/mcp.json"},
		{"cursor", windows, `C:\Users\ada\.cursor\mcp.json`},
		{"vscode", linux, "/home/ada/.config/Code/User/mcp.json"},
		{"vscode", moved, "/conf/Code/User/mcp.json"},
		{"vscode", mac, "/Users/ada/Library/Application Support/Code/User/mcp.json"},
		{"vscode", windows, `C:\Users\ada\AppData\Roaming\Code\User\mcp.json`},
		{"vscode", roaming, `D:\Roaming\Code\User\mcp.json`},
		{"gemini", linux, "/home/ada/.gemini/settings.json"},
		{"gemini", on("linux", "/home/ada", map[string]string{"GEMINI_CLI_HOME": "/conf"}), "/conf/.gemini/settings.json"},
		{"gemini", windows, `C:\Users\ada\.gemini\settings.json`},
		{"windsurf", linux, "/home/ada/.codeium/windsurf/mcp_config.json"},
		{"windsurf", mac, "/Users/ada/.codeium/windsurf/mcp_config.json"},
		{"windsurf", windows, `C:\Users\ada\.codeium\windsurf\mcp_config.json`},
		{"opencode", linux, "/home/ada/.config/opencode/opencode.json"},
		{"opencode", moved, "/conf/opencode/opencode.json"},
		{"opencode", mac, "/Users/ada/.config/opencode/opencode.json"},
		{"opencode", windows, `C:\Users\ada\.config\opencode\opencode.json`},
		{"opencode", on("linux", "/home/ada", map[string]string{"OPENCODE_CONFIG": "/o.json"}), "/o.json"},
		{"codex", linux, "/home/ada/.codex/config.toml"},
		{"codex", windows, `C:\Users\ada\.codex\config.toml`},
		{"codex", on("linux", "/home/ada", map[string]string{"CODEX_HOME": "/conf"}), "/conf/config.toml"},
		{"goose", linux, "/home/ada/.config/goose/config.yaml"},
		{"goose", mac, "/Users/ada/.config/goose/config.yaml"},
		{"goose", windows, `C:\Users\ada\AppData\Roaming\Block\goose\config\config.yaml`},
		{"zed", linux, "/home/ada/.config/zed/settings.json"},
		{"zed", mac, "/Users/ada/.config/zed/settings.json"},
		{"zed", roaming, `D:\Roaming\Zed\settings.json`},
		{"lmstudio", linux, "/home/ada/.lmstudio/mcp.json"},
		{"kilo", linux, "/home/ada/.config/Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"},
		{"roo", windows, `C:\Users\ada\AppData\Roaming\Code\User\globalStorage\rooveterinaryinc.roo-cline\settings\mcp_settings.json`},
		{"amazon-q", mac, "/Users/ada/.aws/amazonq/mcp.json"},
	} {
		c, ok := Find(test.client)
		if got := c.Files(test.place); !ok || got[0] != test.want {
			t.Errorf("%s on %s: got %q, want %q", test.client, test.place.OS, got, test.want)
		}
	}
	c, _ := Find("vscode")
	if got := c.Files(linux); got[1] != "/home/ada/.config/Code - Insiders/User/mcp.json" {
		t.Errorf("the next editions of VS Code are at %q", got[1:])
	}
	if _, ok := Find("emacs"); ok {
		t.Error("there is a client emacs")
	}
	if len(Names()) != 14 || len(table) != 14 {
		t.Errorf("there are the clients %q", Names())
	}
	for _, c := range table {
		if c.Restart == "" || c.Title == "" {
			t.Errorf("%s lacks words", c.Name)
		}
	}
}

func TestProjects(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are of Unix")
	}
	folder := "/home/ada/shop"
	for client, want := range map[string][]string{
		"claude-code":    {folder + "/.mcp.json", "/home/ada/.claude.json"},
		"gemini":         {folder + "/.gemini/settings.json"},
		"cursor":         {folder + "/.cursor/mcp.json"},
		"vscode":         {folder + "/.vscode/mcp.json"},
		"claude-desktop": nil,
		"windsurf":       nil,
		"opencode":       {folder + "/opencode.json", folder + "/opencode.jsonc", folder + "/.opencode/opencode.json", folder + "/.opencode/opencode.jsonc"},
		"codex":          {folder + "/.codex/config.toml"},
		"goose":          nil,
		"zed":            {folder + "/.zed/settings.json"},
		"lmstudio":       nil,
		"kilo":           {folder + "/.kilocode/mcp.json"},
		"roo":            {folder + "/.roo/mcp.json"},
		"amazon-q":       {folder + "/.amazonq/mcp.json"},
	} {
		c, _ := Find(client)
		var got []string
		for _, s := range c.ProjectSources(folder, "/home/ada/.claude.json") {
			got = append(got, s.Path)
			expect.Equal(t, s.Project, folder, "%s: %s belongs to", client, s.Path)
		}
		expect.Deep(t, got, want, "%s", client)
	}
	for file, want := range map[string]string{
		"/w/.vscode/mcp.json": "/w", "/w/.cursor/mcp.json": "/w", "/w/.mcp.json": "/w", "/w/mcp.json": "",
	} {
		c, _ := Find("vscode")
		if got := c.NamedSource(file); got.Project != want || filepath.Base(got.Path) == "" {
			t.Errorf("%s belongs to %q, want %q", file, got.Project, want)
		}
	}
}

// readExpanded returns the value of a text, with variables expanded.
func readExpanded(path string, data []byte) (config.Config, error) {
	c, err := config.ReadText(path, data)
	if err != nil {
		return c, err
	}
	return c.Expand()
}
