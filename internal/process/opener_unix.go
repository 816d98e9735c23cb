//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/internal/program"
)

// A program that a server opens for the user, such as a browser with a log-in page, must outlive
// the server. So the programs that open things are shadowed: a folder with links of
// their names to our own program comes first in the servers' PATH. Such a link starts the program
// that it shadows without the marks of a server, in a session of its own: see [keeper.SpareChildren].

const openerPrefix = "metarouter-open-"

// shadowed are the programs that open files and addresses: gio does with the argument
// "open" alone.
var shadowed = []string{"xdg-open", "gio", "open"}

// An opener has the folder of links. Its methods do nothing on nil.
type opener struct {
	folder  string
	program string // that the links lead to
}

// newOpener returns an opener with links to the program, which must call [Open].
func newOpener(program string) (*opener, error) {
	folder, err := os.MkdirTemp("", openerPrefix) // closed to other users
	if err != nil {
		return nil, err
	}
	return &opener{folder, program}, nil
}

// files returns everything that may be in the folder, and the folder last.
func (o *opener) files() (paths []string) {
	if o == nil {
		return nil
	}
	for _, name := range shadowed {
		paths = append(paths, filepath.Join(o.folder, name))
	}
	return append(paths, o.folder)
}

// environment returns the environment with the links first in its PATH. A program that
// the PATH does not have gets no link, since servers look whether there is such a program.
func (o *opener) environment(env []string) []string {
	if o == nil {
		return env
	}
	env = slices.Clone(env)
	for i, variable := range slices.Backward(env) { // the last one counts
		path, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		found := false
		for _, name := range shadowed {
			if _, ok := program.Search(name, program.Folders(path)); ok {
				found = true
				os.Symlink(o.program, filepath.Join(o.folder, name)) // fails if it is there
			}
		}
		if !found {
			break
		}
		env[i] = "PATH=" + o.folder + string(filepath.ListSeparator) + path
		return append(env, openVariable+"="+o.folder)
	}
	return env
}

// close removes the folder; the programs go on. It opens no file, since there may be too many.
func (o *opener) close() {
	for _, path := range o.files() {
		os.Remove(path)
	}
}

// Open is the whole of a program that is started by a link of an opener, with the
// arguments args and its name before them. It returns at once if the program was not
// started so. Otherwise it starts the program that the link shadows, and exits with its code; or
// it becomes that program.
func Open(args []string) {
	folder := os.Getenv(openVariable)
	if len(args) == 0 || folder == "" || !slices.Contains(shadowed, filepath.Base(args[0])) {
		return
	}
	name := filepath.Base(args[0])
	folders := slices.DeleteFunc(program.Folders(os.Getenv("PATH")), func(f string) bool { return filepath.Clean(f) == folder })
	path, ok := program.Search(name, folders)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: not found\n", name)
		os.Exit(127)
	}
	if name == "gio" && (len(args) < 2 || args[1] != "open") {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, syscall.Exec(path, args, os.Environ()))
		os.Exit(126)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{MarkVariable, DepthVariable, openVariable, "PATH"}, name)
	})
	cmd := exec.Cmd{Path: path, Args: args, Env: append(env, "PATH="+program.Join(folders)), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	end := keeper.SpareChildren()
	err := cmd.Start()
	end()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(126)
	}
	cmd.Wait()
	os.Exit(max(cmd.ProcessState.ExitCode(), 0))
}
