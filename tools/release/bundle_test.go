package main

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A bundleManifest has the keys that we use of the specification of MCP bundles
// (manifest_version 0.3, github.com/modelcontextprotocol/mcpb, MANIFEST.md). Any other
// key is an error.
type bundleManifest struct {
	ManifestVersion string `json:"manifest_version"`
	Name            string `json:"name"`
	DisplayName     string `json:"display_name"`
	Version         string `json:"version"`
	Description     string `json:"description"`
	LongDescription string `json:"long_description"`
	Author          struct {
		Name  string `json:"name"`
		Email string `json:"email"`
		URL   string `json:"url"`
	} `json:"author"`
	Repository struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	} `json:"repository"`
	Homepage      string   `json:"homepage"`
	Documentation string   `json:"documentation"`
	Support       string   `json:"support"`
	License       string   `json:"license"`
	Keywords      []string `json:"keywords"`
	Server        struct {
		Type       string `json:"type"`
		EntryPoint string `json:"entry_point"`
		Config     struct {
			start
			Overrides map[string]start `json:"platform_overrides"`
		} `json:"mcp_config"`
	} `json:"server"`
	ToolsGenerated   bool `json:"tools_generated"`
	PromptsGenerated bool `json:"prompts_generated"`
	Compatibility    struct {
		Platforms []string `json:"platforms"`
	} `json:"compatibility"`
	UserConfig map[string]struct {
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Default     any    `json:"default"`
		Multiple    bool   `json:"multiple"`
		Sensitive   bool   `json:"sensitive"`
	} `json:"user_config"`
}

type start struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func TestBundle(t *testing.T) {
	r := &release{out: t.TempDir(), version: "1.2.3-rc.1", time: time.Unix(1e9, 0)}
	programs := make(map[platform]string)
	if err := r.bundle(programs); err != nil || len(entries(t, r.out)) > 0 {
		t.Errorf("a bundle without programs was packed, %v", err)
	}
	for i, p := range []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"windows", "amd64"}} {
		content := "the program for " + p.os
		if p.os == "darwin" { // the start of a Mach-O file: magic, processor, its kind
			content = "\xcf\xfa\xed\xfe" + strings.Repeat(string(rune('1'+i)), 20_000)
		}
		programs[p] = filepath.Join(t.TempDir(), "program")
		expect.OK(t, os.WriteFile(programs[p], []byte(content), 0o600))
	}
	expect.OK(t, r.bundle(programs))
	bundle, err := zip.OpenReader(filepath.Join(r.out, "metarouter.mcpb"))
	expect.OK(t, err)
	defer bundle.Close()
	files := make(map[string]string)
	for _, file := range bundle.File {
		content, err := file.Open()
		expect.OK(t, err)
		data, err := io.ReadAll(content)
		expect.OK(t, err)
		files[file.Name] = string(data)
		if program := strings.HasPrefix(file.Name, "server/"); program != (file.Mode()&0o111 != 0) {
			t.Errorf("%s has the mode %v", file.Name, file.Mode())
		}
	}
	checkManifest(t, files, "1.2.3-rc.1")
	expect.Equal(t, files["server/metarouter-linux"], "the program for linux", "the program for Linux")
	mac := files["server/metarouter"]
	if !strings.HasPrefix(mac, "\xca\xfe\xba\xbe\x00\x00\x00\x02") || mac[1<<14:1<<14+5] != "\xcf\xfa\xed\xfe1" || mac[3<<14:3<<14+5] != "\xcf\xfa\xed\xfe2" {
		t.Errorf("the program for macOS has %d bytes and begins with %q", len(mac), mac[:8])
	}
}

// A program that macOS would not start is refused.
func TestUniversalOfOtherFile(t *testing.T) {
	if _, err := universal("manifest.json"); err == nil {
		t.Error("a text was taken for a program")
	}
}

// checkManifest checks the manifest against the specification's rules and the files.
func checkManifest(t *testing.T, files map[string]string, version string) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(files["manifest.json"]))
	decoder.DisallowUnknownFields()
	var m bundleManifest
	expect.OK(t, decoder.Decode(&m))
	for what, text := range map[string]string{"name": m.Name, "description": m.Description, "author.name": m.Author.Name} {
		if text == "" {
			t.Errorf("%s is required", what)
		}
	}
	if m.ManifestVersion != "0.3" || m.Version != version || m.Server.Type != "binary" || m.Repository.Type != "git" {
		t.Errorf("got %+v", m)
	}
	for _, url := range []string{m.Author.URL, m.Repository.URL, m.Homepage, m.Documentation, m.Support} {
		if !strings.HasPrefix(url, "https://github.com/mcp-metarouter/metarouter") {
			t.Errorf("the URL %q", url)
		}
	}
	if files[m.Server.EntryPoint] == "" {
		t.Errorf("the bundle has no file %s", m.Server.EntryPoint)
	}
	expect.Deep(t, m.Compatibility.Platforms, []string{"darwin", "win32", "linux"}, "the platforms")
	commands := []string{m.Server.Config.Command}
	for platform, override := range m.Server.Config.Overrides {
		if !slices.Contains(m.Compatibility.Platforms, platform) {
			t.Errorf("%s is not a platform", platform)
		}
		commands = append(commands, override.Command)
	}
	used := make(map[string]bool)
	for _, command := range commands {
		path, ok := strings.CutPrefix(command, "${__dirname}/")
		if !ok || files[path] == "" {
			t.Errorf("the command %s is not a file of the bundle", command)
		}
		used[path] = true
	}
	if len(used) != len(files)-1 {
		t.Errorf("of %d programs, %d are started", len(files)-1, len(used))
	}
	for _, name := range regexp.MustCompile(`\$\{user_config\.(\w+)\}`).FindAllStringSubmatch(strings.Join(m.Server.Config.Args, " "), -1) {
		setting, ok := m.UserConfig[name[1]]
		if !ok || !slices.Contains([]string{"string", "number", "boolean", "directory", "file"}, setting.Type) || setting.Title == "" || setting.Description == "" {
			t.Errorf("the setting %s is %+v", name[1], setting)
		}
		if !setting.Required && setting.Default == nil {
			t.Errorf("the setting %s is optional and has no default", name[1])
		}
		delete(m.UserConfig, name[1])
	}
	if len(m.UserConfig) > 0 {
		t.Errorf("these settings are not used: %v", m.UserConfig)
	}
}

// METAROUTER_MCPB is the path of the specification's own validator, the program mcpb of
// the npm package @anthropic-ai/mcpb.
func TestWithTheirValidator(t *testing.T) {
	validator := os.Getenv("METAROUTER_MCPB")
	if validator == "" {
		t.Skip("METAROUTER_MCPB is not set")
	}
	if out, err := exec.CommandContext(t.Context(), validator, "validate", "manifest.json").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
