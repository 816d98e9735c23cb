package main

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// TestRelease builds a release for this machine, installs it in each way, and runs the
// main job of the program with each.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("packages for Debian and images are for Linux")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	here := platform{runtime.GOOS, runtime.GOARCH}
	r, err := newRelease(ctx, "v1.2.3", filepath.Join(t.TempDir(), "dist"))
	expect.OK(t, err)
	expect.OK(t, r.build(ctx, []platform{here}))
	t.Run("checksums", func(t *testing.T) { checkSums(t, r) })
	t.Run("archive", func(t *testing.T) { tryArchive(ctx, t, r, here) })
	t.Run("npm", func(t *testing.T) { tryNPM(ctx, t, r) })
	t.Run("deb", func(t *testing.T) { tryDeb(ctx, t, r) })
	t.Run("image", func(t *testing.T) { tryImage(ctx, t, r, here) })
	t.Run("rpm", func(t *testing.T) { tryRPM(ctx, t, r) })
	t.Run("sbom", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(r.out, archiveName(r.version, here)+".sbom.json"))
		if err != nil || !strings.Contains(string(text), `"pkg:golang/github.com/blevesearch/bleve/v2@v`) {
			t.Errorf("the search index is not in the list of modules, %v", err)
		}
	})
}

// mainJob are the arguments of the README's first command.
var mainJob = []string{
	"route", "convert 5 kilometers to miles", "value=5", "from_unit=km", "to_unit=mi",
	"--data", "", "--config",
}

// runMainJob runs the program with the configuration of the bundled servers, in a clean
// environment.
func runMainJob(ctx context.Context, t *testing.T, program, config string, change func(*exec.Cmd)) {
	t.Helper()
	for _, try := range []struct {
		args []string
		want string
	}{{[]string{"version", "--json"}, `"version": "1.2.3"`}, {append(mainJob, config), "3.1"}} {
		cmd := exec.CommandContext(ctx, program, try.args...)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
		if change != nil {
			change(cmd)
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), try.want) {
			t.Errorf("%s %q: %v\n%s", program, try.args, err, out)
		}
	}
}

func entries(t *testing.T, folder string) []string {
	t.Helper()
	found, err := os.ReadDir(folder)
	expect.OK(t, err)
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

// only returns the path of the only file of the release that fits a pattern.
func only(t *testing.T, r *release, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.out, pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q has the files %q, %v", pattern, paths, err)
	}
	return paths[0]
}

func command(ctx context.Context, t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func checkSums(t *testing.T, r *release) {
	list, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
	expect.OK(t, err)
	var want strings.Builder
	for _, name := range entries(t, r.out) {
		if name == "checksums.txt" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, name))
		expect.OK(t, err)
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(data), name)
	}
	if string(list) != want.String() {
		t.Errorf("got\n%s\nwant\n%s", list, want.String())
	}
}

func tryArchive(ctx context.Context, t *testing.T, r *release, here platform) {
	folder := t.TempDir()
	command(ctx, t, "tar", "-xzf", filepath.Join(r.out, archiveName(r.version, here)), "-C", folder)
	command(ctx, t, "bash", "-n", filepath.Join(folder, "completions", "metarouter.bash"))
	page := filepath.Join(folder, "manpages", "metarouter-serve.1.gz")
	expect.Contains(t, command(ctx, t, "gzip", "-dc", page), "metarouter-serve", "the manual page")
	runMainJob(ctx, t, filepath.Join(folder, "metarouter"), filepath.Join(folder, ".mcp.json.example"), nil)
}

// tryNPM installs from a registry that has the packages of the release, as a user does.
func tryNPM(ctx context.Context, t *testing.T, r *release) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	registry := httptest.NewServer(npmRegistry(r))
	defer registry.Close()
	config, err := filepath.Abs("../../.mcp.json.example")
	expect.OK(t, err)
	folder := t.TempDir()
	npm := func(cmd *exec.Cmd) {
		cmd.Dir = folder
		cmd.Env = append(cmd.Env, "npm_config_registry="+registry.URL, "npm_config_cache="+folder+"/cache", "npm_config_update_notifier=false", "npm_config_audit=false")
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "metarouter@1.2.3")
	cmd.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	npm(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	here := npmNames.Replace(runtime.GOOS + "/" + runtime.GOARCH)
	if got := entries(t, filepath.Join(folder, "node_modules", "@mcp-metarouter")); !slices.Equal(got, []string{here}) {
		t.Errorf("it installed the programs %q", got)
	}
	runMainJob(ctx, t, filepath.Join(folder, "node_modules", ".bin", "metarouter"), config, nil)

	// Without an installation, and with npm's own lookup.
	folder = t.TempDir()
	cmd = exec.CommandContext(ctx, "npx", append(append([]string{"--yes", "metarouter@1.2.3"}, mainJob...), config)...)
	cmd.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	npm(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "3.1") {
		t.Errorf("npx: %v\n%s", err, out)
	}

	// The entry for a client does not lead into npm's cache, which npm may empty.
	cmd = exec.CommandContext(ctx, "npx", "--yes", "metarouter@1.2.3", "install", "cursor")
	cmd.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	npm(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"command": "npx"`) || strings.Contains(string(out), "_npx") {
		t.Errorf("npx metarouter install: %v\n%s", err, out)
	}

	// A signal to the script ends the program, and the exit code is the program's.
	script := filepath.Join(folder, "cache", "_npx")
	found, err := filepath.Glob(filepath.Join(script, "*", "node_modules", ".bin", "metarouter"))
	if err != nil || len(found) != 1 {
		t.Fatalf("npx installed %q, %v", found, err)
	}
	checkScript(ctx, t, found[0])
}

// checkScript checks that the script hands over streams, signals and exit codes.
func checkScript(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, script, "nonsense")
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("an unknown command ends with %v", err)
	}
	cmd = exec.CommandContext(ctx, script, "builtin", "utilities")
	in, err := cmd.StdinPipe()
	expect.OK(t, err)
	out, err := cmd.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, cmd.Start())
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
	line := make([]byte, 1<<16)
	if n, err := out.Read(line); !strings.Contains(string(line[:n]), "serverInfo") {
		t.Errorf("it answered %q, %v", line[:n], err)
	}
	expect.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if n, err := out.Read(line); err != io.EOF { // the program has closed its stdout
		t.Errorf("after SIGTERM it wrote %q, %v", line[:n], err)
	}
	cmd.Wait()
}

// npmRegistry serves the packages of a release as npm's registry does.
func npmRegistry(r *release) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(r.out))))
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		file := "metarouter"
		if scoped, ok := strings.CutPrefix(req.URL.Path, "/"+npmScope); ok {
			file += "-" + scoped
		} else if req.URL.Path != "/metarouter" {
			http.NotFound(w, req)
			return
		}
		file = "npm-" + file + "-" + r.version + ".tgz"
		text, err := exec.CommandContext(req.Context(), "tar", "-xzOf", filepath.Join(r.out, file), "package/package.json").Output()
		if err != nil { // a platform that was not built
			http.NotFound(w, req)
			return
		}
		var p map[string]any
		if err := json.Unmarshal(text, &p); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p["dist"] = map[string]string{"tarball": "http://" + req.Host + "/files/" + file}
		json.NewEncoder(w).Encode(map[string]any{
			"name": p["name"], "dist-tags": map[string]string{"latest": r.version}, "versions": map[string]any{r.version: p},
		})
	})
	return mux
}

// tryDeb installs the package into a folder.
func tryDeb(ctx context.Context, t *testing.T, r *release) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not installed")
	}
	if os.Getuid() != 0 {
		t.Skip("dpkg installs for root only")
	}
	folder := t.TempDir()
	admin := filepath.Join(folder, "var/lib/dpkg")
	for _, name := range []string{"info", "updates", "triggers"} {
		expect.OK(t, os.MkdirAll(filepath.Join(admin, name), 0o755))
	}
	expect.OK(t, os.WriteFile(filepath.Join(admin, "status"), nil, 0o644))
	command(ctx, t, "dpkg", "--root="+folder, "--log=/dev/null", "--install", only(t, r, "*.deb"))
	for _, name := range []string{
		"usr/lib/systemd/system/metarouter.service", "usr/share/man/man1/metarouter.1.gz", "usr/share/bash-completion/completions/metarouter",
		"usr/share/zsh/vendor-completions/_metarouter", "usr/share/doc/metarouter/copyright", "etc/metarouter",
	} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	runMainJob(ctx, t, filepath.Join(folder, "usr/bin/metarouter"), filepath.Join(folder, "usr/share/doc/metarouter/mcp.json.example"), nil)
}

// tryImage unpacks the image and runs its program in it, with nothing else there.
func tryImage(ctx context.Context, t *testing.T, r *release, here platform) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	image, err := tarball.ImageFromPath(only(t, r, "*.image.tar"), nil)
	expect.OK(t, err)
	config, err := image.ConfigFile()
	expect.OK(t, err)
	if config.OS != here.os || config.Architecture != here.arch || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/usr/bin/metarouter" {
		t.Errorf("the configuration is %+v", config)
	}
	folder, err := os.MkdirTemp("", "metarouter-image") // others than root can open it
	expect.OK(t, err)
	defer os.RemoveAll(folder)
	expect.OK(t, os.Chmod(folder, 0o755))
	content := mutate.Extract(image)
	defer content.Close()
	unpack := exec.CommandContext(ctx, "tar", "-x", "--same-owner", "-C", folder)
	unpack.Stdin = content
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if roots, err := os.ReadFile(filepath.Join(folder, "etc/ssl/certs/ca-certificates.crt")); strings.Count(string(roots), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("the image has %d bytes of certificates, %v", len(roots), err)
	}
	example, err := os.ReadFile("../../.mcp.json.example")
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(folder, "config/mcp.json"), example, 0o644))
	program, err := elf.Open(filepath.Join(folder, "usr/bin/metarouter"))
	expect.OK(t, err)
	if libraries, _ := program.ImportedLibraries(); len(libraries) > 0 {
		t.Errorf("the program needs %q", libraries)
	}
	program.Close()
	runMainJob(ctx, t, "/usr/bin/metarouter", "/config/mcp.json", func(cmd *exec.Cmd) {
		cmd.Path, cmd.Err = "/usr/bin/metarouter", nil
		cmd.Dir, cmd.Env = config.Config.WorkingDir, config.Config.Env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	})
}

func tryRPM(ctx context.Context, t *testing.T, r *release) {
	data, err := os.ReadFile(only(t, r, "*.rpm"))
	if err != nil || !strings.HasPrefix(string(data), "\xed\xab\xee\xdb") {
		t.Errorf("the file begins with %q, %v", data[:min(4, len(data))], err)
	}
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Log("without rpm, the package is not looked into")
		return
	}
	expect.Contains(t, command(ctx, t, "rpm", "-qlp", only(t, r, "*.rpm")), "/usr/bin/metarouter\n", "it")
}

// The same content gives the same packages.
func TestSameBytes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "metarouter")
	expect.OK(t, os.WriteFile(program, []byte("the program"), 0o755))
	var sums [2]string
	for i := range sums {
		r := &release{root: "../..", out: t.TempDir(), version: "1.2.3", time: time.Unix(1e9, 0)}
		p := platform{"linux", "amd64"}
		err := errors.Join(r.archive(p, program, nil), r.systemPackages(p, program, nil), r.npmPlatform(p, program), r.npmMain(), r.image(p, program), r.checksums())
		expect.OK(t, err)
		text, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
		expect.OK(t, err)
		sums[i] = string(text)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 6 {
		t.Errorf("first\n%s\nthen\n%s", sums[0], sums[1])
	}
}

func TestFormula(t *testing.T) {
	r := &release{out: t.TempDir(), version: "1.2.3"}
	if err := r.formula(allPlatforms[:2]); err != nil || len(entries(t, r.out)) > 0 {
		t.Errorf("a formula without the archives for macOS was written, %v", err)
	}
	for _, p := range allPlatforms {
		expect.OK(t, os.WriteFile(filepath.Join(r.out, archiveName(r.version, p)), []byte(p.String()), 0o600))
	}
	expect.OK(t, r.formula(allPlatforms))
	text, err := os.ReadFile(filepath.Join(r.out, "metarouter.rb"))
	expect.OK(t, err)
	for _, want := range []string{
		`url "https://github.com/mcp-metarouter/metarouter/releases/download/v1.2.3/metarouter_1.2.3_darwin_arm64.tar.gz"`,
		fmt.Sprintf(`sha256 "%x"`, sha256.Sum256([]byte("linux/arm64"))), `version "1.2.3"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, version := range []string{"", "1.2", "1.2.3 ", "latest"} {
		if _, err := newRelease(t.Context(), version, t.TempDir()); err == nil || !strings.Contains(err.Error(), "1.2.3") {
			t.Errorf("the version %q: %v", version, err)
		}
	}
	if _, err := newRelease(t.Context(), "1.2.3", "."); err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("a folder of sources: %v", err)
	}
	if _, err := parsePlatforms("linux/amd64,plan9/mips"); err == nil || !strings.Contains(err.Error(), `"plan9/mips"`) {
		t.Errorf("an unknown platform: %v", err)
	}
}
