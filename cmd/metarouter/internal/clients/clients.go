// Package clients knows the configuration files of MCP clients: where they are on
// each system, how they are written, and how to put our entry into them or take their
// servers over. It backs the commands import and install.
//
// A client's file keeps every byte that is not part of the requested entry: unknown keys,
// comments, order, indentation, line ends. Only Read, File.Write and the functions in
// system.go look at the system; everything else is pure.
package clients

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// EntryName is what our entry is called in a client's file.
const EntryName = "metarouter"

// A Client is a program that starts MCP servers named in a file of its own.
type Client struct {
	Name  string // as on the command line
	Title string // as its vendor writes it

	keys      []string                                          // from the root of the file to the servers
	typed     bool                                              // entries say "type": "stdio"
	comments  bool                                              // it reads files with comments and trailing commas
	expands   bool                                              // it replaces ${VAR}, or asks for it
	inherits  bool                                              // its servers get all of its environment
	withholds bool                                              // but for variables that look secret, unless their entries name them
	dollar    bool                                              // it replaces $VAR, too
	braces    bool                                              // it replaces {env:VAR} and {file:PATH}, and not ${VAR}
	parts     bool                                              // some of its entries are parts of it; see isPart
	format    format                                            // of its file
	dialect   dialect                                           // nil if package config reads its entries
	entry     func(c Client, e Entry, earlier []string) []field // our entry in its dialect; nil for the usual one

	Restart string                                 // how to make it read the file again
	Files   func(Place) []string                   // the paths that the user's file may have, the usual one first
	others  func(p Place, file string) []Source    // further places of the user's servers, next to the file in use
	project func(folder, userFile string) []Source // the places of one project's servers; nil if the client has none
}

// All returns the clients.
func All() []Client { return slices.Clone(table) }

// Find returns the client of that name.
func Find(name string) (Client, bool) {
	i := slices.IndexFunc(table, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return table[i], true
}

// Names returns the names of all clients.
func Names() []string {
	var names []string
	for _, c := range table {
		names = append(names, c.Name)
	}
	return names
}

var claudeKeys = []string{"mcpServers"}

var table = []Client{
	{
		Name: "claude-desktop", Title: "Claude Desktop", keys: claudeKeys,
		Restart: "quit Claude Desktop completely (its tray icon too) and start it again; while it runs, it may overwrite its file",
		Files:   claudeDesktop,
	},
	{
		Name: "claude-code", Title: "Claude Code", keys: claudeKeys, typed: true, expands: true, inherits: true,
		Restart: "start claude again (its command /mcp shows the servers); if a session that was running has overwritten the file, repeat this command",
		Files: func(p Place) []string {
			if folder := p.Env("CLAUDE_CONFIG_DIR"); folder != "" {
				return []string{p.join(folder, ".claude.json")}
			}
			return []string{p.join(p.Home, ".claude.json")}
		},
		project: func(folder, userFile string) []Source {
			spellings := []string{folder}
			if slashed := filepath.ToSlash(folder); slashed != folder {
				spellings = append(spellings, slashed)
			}
			sources := []Source{{Path: filepath.Join(folder, ".mcp.json"), keys: claudeKeys, Project: folder}}
			for _, spelling := range spellings {
				sources = append(sources, Source{Path: userFile, keys: []string{"projects", spelling, "mcpServers"}, Project: folder})
			}
			return sources
		},
	},
	{
		Name: "gemini", Title: "Gemini CLI", keys: claudeKeys, comments: true, expands: true, inherits: true, withholds: true, dollar: true,
		Restart: "start gemini again in a folder that it trusts (its command /mcp shows the servers); in other folders it starts no servers",
		Files: func(p Place) []string {
			return []string{p.join(cmp.Or(p.Env("GEMINI_CLI_HOME"), p.Home), ".gemini", "settings.json")}
		},
		project: inFolder(".gemini", "settings.json", claudeKeys),
	},
	{
		Name: "cursor", Title: "Cursor", keys: claudeKeys, typed: true, expands: true, inherits: true,
		Restart: "turn the server on in Cursor's settings under MCP, or restart Cursor",
		Files:   func(p Place) []string { return []string{p.join(p.Home, ".cursor", "mcp.json")} },
		project: inFolder(".cursor", "mcp.json", claudeKeys),
	},
	{
		Name: "vscode", Title: "VS Code", keys: []string{"servers"}, typed: true, comments: true, expands: true, inherits: true,
		Restart: "run 'MCP: List Servers' in VS Code and start metarouter there",
		Files:   func(p Place) []string { return vscode(p, "mcp.json") },
		others: func(p Place, file string) []Source {
			// Older versions of VS Code kept servers in the settings.
			settings := p.join(p.dir(file), "settings.json")
			return []Source{{Path: settings, keys: []string{"mcp", "servers"}}}
		},
		project: inFolder(".vscode", "mcp.json", []string{"servers"}),
	},
	{
		Name: "windsurf", Title: "Windsurf", keys: claudeKeys, expands: true, inherits: true,
		Restart: "press Refresh in Windsurf's list of MCP servers, or restart Windsurf",
		Files: func(p Place) []string {
			return []string{
				p.join(p.Home, ".codeium", "windsurf", "mcp_config.json"),
				p.join(p.Home, ".codeium", "windsurf-next", "mcp_config.json"),
				p.join(p.Home, ".codeium", "mcp_config.json"), // of its plugins in other editors
			}
		},
	},
	{
		Name: "opencode", Title: "opencode", keys: []string{"mcp"}, comments: true, inherits: true, braces: true, parts: true,
		dialect: opencode, entry: func(_ Client, e Entry, earlier []string) []field {
			return []field{{"type", text("local")}, {"command", list(append([]string{e.Command}, e.arguments(earlier)...))}}
		},
		Restart: "start opencode again",
		Files: func(p Place) []string {
			files := []string{p.join(p.xdg(), "opencode", "opencode.json"), p.join(p.xdg(), "opencode", "opencode.jsonc")}
			if file := p.Env("OPENCODE_CONFIG"); file != "" {
				files = append([]string{file}, files...)
			}
			return files
		},
		project: func(folder, _ string) (all []Source) {
			for _, in := range []string{folder, filepath.Join(folder, ".opencode")} {
				for _, file := range []string{"opencode.json", "opencode.jsonc"} {
					all = append(all, Source{Path: filepath.Join(in, file), keys: []string{"mcp"}, Project: folder})
				}
			}
			return all
		},
	},
	{
		Name: "codex", Title: "Codex", keys: []string{"mcp_servers"}, withholds: true, format: inTOML,
		dialect: codex, entry: func(_ Client, e Entry, earlier []string) []field {
			all := []field{{"command", text(e.Command)}, {"args", list(e.arguments(earlier))}}
			if len(e.Variables) > 0 {
				all = append(all, field{"env_vars", list(e.Variables)})
			}
			return all
		},
		Restart: "start codex again (its command /mcp shows the servers)",
		Files: func(p Place) []string {
			return []string{p.join(cmp.Or(p.Env("CODEX_HOME"), p.join(p.Home, ".codex")), "config.toml")}
		},
		project: inFolder(".codex", "config.toml", []string{"mcp_servers"}),
	},
	{
		Name: "goose", Title: "Goose", keys: []string{"extensions"}, inherits: true, parts: true, format: inYAML,
		dialect: goose, entry: func(_ Client, e Entry, earlier []string) []field {
			return []field{
				{"enabled", valueOf(true)}, {"type", text("stdio")}, {"name", text(EntryName)}, {"description", text("MCP servers behind metarouter")},
				{"cmd", text(e.Command)}, {"args", list(e.arguments(earlier))}, {"timeout", valueOf(json.Number("300"))},
			}
		},
		Restart: "start a new session of Goose",
		Files: func(p Place) []string {
			if p.OS == "windows" {
				return []string{p.join(p.config(), "Block", "goose", "config", "config.yaml")}
			}
			return []string{p.join(p.xdg(), "goose", "config.yaml")}
		},
	},
	{
		Name: "zed", Title: "Zed", keys: []string{"context_servers"}, comments: true, inherits: true, parts: true,
		Restart: "Zed reads the file at once; its Agent Panel shows the servers",
		Files: func(p Place) []string {
			if p.OS == "windows" {
				return []string{p.join(p.config(), "Zed", "settings.json")}
			}
			return []string{p.join(p.xdg(), "zed", "settings.json"), p.join(p.Home, ".var", "app", "dev.zed.Zed", "config", "zed", "settings.json")}
		},
		project: inFolder(".zed", "settings.json", []string{"context_servers"}),
	},
	{
		Name: "lmstudio", Title: "LM Studio", keys: claudeKeys,
		Restart: "turn the server on in LM Studio, under Program",
		Files: func(p Place) []string {
			return []string{p.join(p.Home, ".lmstudio", "mcp.json"), p.join(p.Home, ".cache", "lm-studio", "mcp.json")}
		},
	},
	{
		Name: "kilo", Title: "Kilo Code", keys: claudeKeys, expands: true,
		Restart: "press the refresh button in Kilo Code's list of MCP servers",
		Files: func(p Place) []string {
			return vscode(p, p.join("globalStorage", "kilocode.kilo-code", "settings", "mcp_settings.json"))
		},
		project: inFolder(".kilocode", "mcp.json", claudeKeys),
	},
	{
		Name: "roo", Title: "Roo Code", keys: claudeKeys, expands: true,
		Restart: "press the refresh button in Roo Code's list of MCP servers",
		Files: func(p Place) []string {
			return vscode(p, p.join("globalStorage", "rooveterinaryinc.roo-cline", "settings", "mcp_settings.json"))
		},
		project: inFolder(".roo", "mcp.json", claudeKeys),
	},
	{
		Name: "amazon-q", Title: "Amazon Q", keys: claudeKeys, expands: true,
		Restart: "start q chat again (its command /mcp shows the servers)",
		Files:   func(p Place) []string { return []string{p.join(p.Home, ".aws", "amazonq", "mcp.json")} },
		project: inFolder(".amazonq", "mcp.json", claudeKeys),
	},
}

func inFolder(folder, file string, keys []string) func(string, string) []Source {
	return func(project, _ string) []Source {
		return []Source{{Path: filepath.Join(project, folder, file), keys: keys, Project: project}}
	}
}

// A Place is the system that a client runs on, as far as the paths of its files depend on
// it.
type Place struct {
	OS   string              // as runtime.GOOS
	Home string              // the user's folder
	Env  func(string) string // the environment
	Glob func(pattern string) []string
}

// join is filepath.Join for the place's system, which need not be ours.
func (p Place) join(elements ...string) string {
	separator := "/"
	if p.OS == "windows" {
		separator = `\`
	}
	return strings.Join(elements, separator)
}

func (p Place) dir(file string) string {
	return file[:max(strings.LastIndexAny(file, `/\`), 0)]
}

// config returns the system's folder for configuration.
func (p Place) config() string {
	switch p.OS {
	case "darwin", "ios":
		return p.join(p.Home, "Library", "Application Support")
	case "windows":
		if folder := p.Env("APPDATA"); folder != "" {
			return folder
		}
		return p.join(p.Home, "AppData", "Roaming")
	}
	return p.xdg()
}

// xdg returns the folder for configuration of programs that use the same one on all systems.
func (p Place) xdg() string {
	if folder := p.Env("XDG_CONFIG_HOME"); strings.HasPrefix(folder, "/") {
		return folder
	}
	return p.join(p.Home, ".config")
}

// claudeDesktop returns the files of Claude Desktop. An app from the store of Windows has
// a folder of its own, and never reads the usual one.
func claudeDesktop(p Place) []string {
	const file = "claude_desktop_config.json"
	if p.OS == "windows" {
		local := p.Env("LOCALAPPDATA")
		if local == "" {
			local = p.join(p.Home, "AppData", "Local")
		}
		var packaged []string
		for _, folder := range p.Glob(p.join(local, "Packages", "Claude_*", "LocalCache", "Roaming", "Claude")) {
			packaged = append(packaged, p.join(folder, file))
		}
		if len(packaged) > 0 {
			return packaged
		}
	}
	return []string{p.join(p.config(), "Claude", file)}
}

func vscode(p Place, file string) []string {
	var files []string
	if folder := p.Env("VSCODE_PORTABLE"); folder != "" {
		files = append(files, p.join(folder, "user-data", "User", file))
	}
	for _, edition := range []string{"Code", "Code - Insiders", "VSCodium"} {
		files = append(files, p.join(p.config(), edition, "User", file))
	}
	if p.OS == "linux" {
		files = append(files, p.join(p.Home, ".var", "app", "com.visualstudio.code", "config", "Code", "User", file)) // Flatpak's
	}
	return files
}

// Profiles returns the files of VS Code's profiles, each with servers of its own.
func (c Client) Profiles(p Place, file string) []string {
	if c.Name != "vscode" {
		return nil
	}
	return p.Glob(p.join(p.dir(file), "profiles", "*", "mcp.json"))
}

// A Source is a place where a client keeps servers.
type Source struct {
	Path    string
	Data    []byte
	Project string // the project's folder that the servers belong to, "" if they are the user's

	keys []string // from the root to the servers
}

// UserSources returns the places of the user's servers if file is the user's file. Their
// Data is not read yet.
func (c Client) UserSources(p Place, file string) []Source {
	sources := []Source{{Path: file, keys: c.keys}}
	if c.others != nil {
		sources = append(sources, c.others(p, file)...)
	}
	return sources
}

// ProjectSources returns the places of a project's servers, or none if the client has no
// servers of projects.
func (c Client) ProjectSources(folder, userFile string) []Source {
	if c.project == nil {
		return nil
	}
	return c.project(folder, userFile)
}

// NamedSource returns the source of a client's file that the user named.
func (c Client) NamedSource(path string) Source {
	s := Source{Path: path, keys: c.keys}
	if folder := filepath.Base(filepath.Dir(path)); folder == ".vscode" || folder == ".cursor" {
		s.Project = filepath.Dir(filepath.Dir(path))
	} else if filepath.Base(path) == ".mcp.json" {
		s.Project = filepath.Dir(path)
	}
	if filepath.Base(path) == "settings.json" && c.Name == "vscode" {
		s.keys = []string{"mcp", "servers"}
	}
	return s
}

// Projects returns the folders of the projects that have servers in the user's file.
func (c Client) Projects(s Source) []string {
	if c.Name != "claude-code" {
		return nil
	}
	d, err := open(s.Path, s.Data)
	if err != nil {
		return nil
	}
	var folders []string
	if v := d.at("projects"); v != nil && object(v) != nil {
		for _, m := range object(v).Members {
			if servers := member(&m.Value, "mcpServers"); servers != nil && object(&servers.Value) != nil && len(object(&servers.Value).Members) > 0 {
				folders = append(folders, jsonc.Key(m))
			}
		}
	}
	return folders
}
