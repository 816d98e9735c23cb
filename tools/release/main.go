// Command release builds everything that a release has, into one folder:
//
//   - archives with the program, its completions and manual pages, for each platform
//   - packages for Debian and for distributions with RPM
//   - packages for npm: a small one that starts the program, and one with the program
//     for each platform
//   - images for containers, with the program alone
//   - a bundle for Claude Desktop (MCPB)
//   - a formula for Homebrew
//   - for each program the modules in it (SBOM, CycloneDX), and checksums of all files
//
// It publishes nothing. Two runs on the same commit write the same bytes.
//
//	go -C tools run ./release -version 1.2.3 -out ../dist
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the release, such as 1.2.3")
	out := flag.String("out", "dist", "`folder` to write to; an earlier release in it is removed")
	only := flag.String("platforms", "", "build for these `platforms` only, such as linux/amd64,darwin/arm64; what needs others is left out (default all)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *version, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, out, only string) error {
	platforms, err := parsePlatforms(only)
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, version, out)
	if err != nil {
		return err
	}
	return r.build(ctx, platforms)
}

// A platform is a system and a processor, by Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// program returns the file name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "metarouter.exe"
	}
	return "metarouter"
}

// allPlatforms are the platforms of a whole release.
var allPlatforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func parsePlatforms(list string) ([]platform, error) {
	if list == "" {
		return allPlatforms, nil
	}
	var all []platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(allPlatforms, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("the platform %q is unknown; write some of %v", name, allPlatforms)
		}
		all = append(all, allPlatforms[i])
	}
	return all, nil
}

// A release is a version in its folder.
type release struct {
	root    string // folder of the project
	out     string // folder of the release
	work    string // folder in out for files on their way into the release
	version string
	time    time.Time // of all files
}

var semantic = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func newRelease(ctx context.Context, version, out string) (*release, error) {
	version = strings.TrimPrefix(version, "v")
	if !semantic.MatchString(version) {
		return nil, fmt.Errorf("-version %q must be like 1.2.3", version)
	}
	root, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/mcp-metarouter/metarouter")
	if err != nil {
		return nil, err
	}
	r := &release{root: root, version: version}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	committed, err := output(ctx, root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(committed, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the time of the commit: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	if err := r.clear(); err != nil {
		return nil, err
	}
	r.work = filepath.Join(r.out, "work")
	return r, os.MkdirAll(r.work, 0o755)
}

// clear removes an earlier release from the folder. It removes nothing else.
func (r *release) clear() error {
	files, err := os.ReadDir(r.out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, mark := range []string{"checksums.txt", "work"} {
		if _, err := os.Stat(filepath.Join(r.out, mark)); err == nil {
			return os.RemoveAll(r.out)
		}
	}
	return fmt.Errorf("%s holds other files than a release; name an empty folder with -out", r.out)
}

// build writes the release for the platforms.
func (r *release) build(ctx context.Context, platforms []platform) error {
	programs := make(map[platform]string)
	for _, p := range platforms {
		path, err := r.compile(ctx, p)
		if err != nil {
			return err
		}
		programs[p] = path
	}
	docs, err := r.document(ctx)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.packagesFor(p, programs[p], docs); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := errors.Join(r.npmMain(), r.bundle(programs), r.formula(platforms)); err != nil {
		return err
	}
	if err := os.RemoveAll(r.work); err != nil {
		return err
	}
	return r.checksums()
}

// packagesFor writes the packages of a platform.
func (r *release) packagesFor(p platform, program string, docs []file) error {
	if err := r.archive(p, program, docs); err != nil {
		return err
	}
	if err := r.bom(p, program); err != nil {
		return err
	}
	if err := r.npmPlatform(p, program); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	if err := r.systemPackages(p, program, docs); err != nil {
		return err
	}
	return r.image(p, program)
}

// compile builds the program for a platform and returns its path.
func (r *release) compile(ctx context.Context, p platform) (string, error) {
	path := filepath.Join(r.work, p.os+"_"+p.arch, p.program())
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", "-s -w -X main.released="+r.version, "-o", path, "./cmd/metarouter")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build for %s: %w\n%s", p, err, out)
	}
	return path, nil
}

// checksums writes the SHA-256 of each file of the release, as sha256sum does.
func (r *release) checksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range files {
		sum, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(list.String()), 0o644)
}

// sumOf returns a file's SHA-256 in hexadecimal.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// output runs a program in a folder and returns the line that it prints.
func output(ctx context.Context, folder, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
