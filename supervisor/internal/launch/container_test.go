package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A command that runs no container, or for which that is not certain, is started as it is written.
func TestContain(t *testing.T) {
	for line, contained := range map[string]bool{
		"docker run -i --rm img":               true,
		"podman --remote container run -i img": true,
		"docker exec -i name cmd":              false,
		"docker run --odd -i img":              false,
		"sudo docker run -i img":               false,
		"sh -c docker run -i img":              false,
		"/usr/bin/nerdctl -n x run -i img run": true,
	} {
		words := strings.Fields(line)
		entry := config.Server{Name: "s", Command: words[0], Args: words[1:]}
		before := process.Command{Path: "/usr/bin/" + filepath.Base(words[0]), Args: slices.Clone(entry.Args), Dir: t.TempDir(), Env: []string{"A=1"}}
		c := contain(before, entry)
		if (c.Container != nil) != contained {
			t.Errorf("%s: %+v", line, c)
			continue
		}
		expect.List(t, entry.Args, words[1:], "%s: the entry has become", line)
		if !contained {
			expect.List(t, c.Args, entry.Args, "%s", line)
			continue
		}
		again := contain(before, entry)
		if again.Container.File == c.Container.File {
			t.Errorf("%s: two starts have the file %s", line, c.Container.File)
		}
		i := slices.Index(c.Args, "--cidfile")
		rest := slices.Concat(c.Args[:i-2], c.Args[i+2:])
		if c.Args[i+1] != c.Container.File || c.Args[i-1] != "metarouter.server=s" || !slices.Equal(rest, entry.Args) {
			t.Errorf("%s: %q", line, c.Args)
		}
		info, err := os.Stat(filepath.Dir(c.Container.File))
		if err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("%s: the folder of the file: %v, %v", line, info, err)
		}
		c.Container.Discard()
		again.Container.Discard()
	}
}

// A file of IDs that the entry names is the user's: it stays, and what it names already is not stopped.
func TestOwnFileOfIDs(t *testing.T) {
	dir := t.TempDir()
	entry := config.Server{Name: "s", Command: "docker", Args: strings.Fields("run --cidfile own.id -i --rm img")}
	before := process.Command{Path: "/usr/bin/docker", Args: entry.Args, Dir: dir}
	c := contain(before, entry)
	if c.Container == nil || c.Container.File != filepath.Join(dir, "own.id") || len(c.Container.Remove) > 0 || strings.Join(c.Args, " ") != "run --label metarouter.server=s --cidfile own.id -i --rm img" {
		t.Errorf("%q with %+v", c.Args, c.Container)
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "own.id"), []byte("another"), 0o600))
	if c = contain(before, entry); c.Container != nil {
		t.Errorf("another container is held: %+v", c.Container)
	}
}

// The client of a snap can't write to the usual folder for temporary files.
func TestFolderOfIDs(t *testing.T) {
	dir := t.TempDir()
	snap, client := filepath.Join(dir, "snap"), filepath.Join(dir, "docker")
	expect.OK(t, os.WriteFile(snap, nil, 0o700))
	if err := os.Symlink(snap, client); err != nil {
		t.Skip(err)
	}
	home, err := os.UserHomeDir()
	expect.OK(t, err)
	expect.Equal(t, folderOfIDs(client), filepath.Join(home, "snap", "docker", "common"), "the folder")
	expect.Equal(t, folderOfIDs(snap+"x"), "", "of another client it")
}
