//go:build unix

package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A program that a server opens for the user, such as a browser with a log-in page, must outlive
// the server. So the programs that open things are shadowed: a folder with links of
// their names to our own program comes first in the servers' PATH. Such a link asks the
// router to start the program that it shadows. The router is no descendant of the
// process guard, so neither is the program: it lives even where the system keeps no tags of orphans.

const (
	openerPrefix = "metarouter-open-"

	maxOpenRequest = 8 << 20 // bytes
	maxOpened      = 32      // programs at once; others are started in the server's tree
	openTimeout    = 5 * time.Second
)

// shadowed are the programs that open files and addresses: gio does with the argument
// "open" alone.
var shadowed = []string{"xdg-open", "gio", "open"}

// An openRequest is a program to be started.
type openRequest struct {
	Path string
	Args []string // with the program's name
	Env  []string
	Dir  string
}

// An opener starts programs for servers. Its methods do nothing on nil.
type opener struct {
	folder   string
	program  string // that the links lead to
	listener net.Listener
	life     *signal.Life
	answers  errgroup.Group // to requests, at most maxOpened at a time
}

// newOpener returns an opener with links to the program, which must call [Open].
func newOpener(program string) (*opener, error) {
	folder, err := os.MkdirTemp("", openerPrefix) // closed to other users
	if err != nil {
		return nil, err
	}
	o := &opener{folder: folder, program: program, life: signal.NewLife()}
	o.answers.SetLimit(maxOpened)
	o.listener, err = net.Listen("unix", filepath.Join(folder, "socket"))
	if err == nil {
		err = os.Mkdir(o.bin(), 0o700)
	}
	if err != nil {
		o.remove()
		return nil, err
	}
	o.life.Go(o.serve)
	return o, nil
}

// files returns everything that may be in the folder, and the folder last: they are to be removed at the end, in this order.
func (o *opener) files() (paths []string) {
	if o == nil {
		return nil
	}
	for _, name := range shadowed {
		paths = append(paths, filepath.Join(o.bin(), name))
	}
	return append(paths, o.bin(), filepath.Join(o.folder, "socket"), o.folder)
}

// environment returns the environment with the links first in its PATH. A program that
// the PATH does not have gets no link, since servers look whether there is such a program.
func (o *opener) environment(env []string) []string {
	if o == nil {
		return env
	}
	path := ""
	for _, variable := range env { // the last one counts
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	found := false
	for _, name := range shadowed {
		if _, ok := program.Search(name, program.Folders(path)); ok {
			found = true
			os.Symlink(o.program, filepath.Join(o.bin(), name)) // fails if it is there
		}
	}
	if !found {
		return env
	}
	return append(slices.Clip(env), "PATH="+o.bin()+string(filepath.ListSeparator)+path, openVariable+"="+o.folder)
}

func (o *opener) bin() string { return filepath.Join(o.folder, "bin") }

// close lets the programs go on.
func (o *opener) close() {
	if o == nil {
		return
	}
	o.life.Close(nil)
	o.listener.Close()
	o.life.Wait()
	o.answers.Wait()
	o.remove()
}

// remove removes the folder. It opens no file, since there may be too many.
func (o *opener) remove() {
	for _, path := range o.files() {
		os.Remove(path)
	}
}

func (o *opener) serve() {
	for {
		conn, err := o.listener.Accept()
		if err != nil {
			return
		}
		if !o.answers.TryGo(func() error { o.answer(conn); return nil }) {
			conn.Close()
		}
	}
}

// answer starts a program, and sends its exit code once it has ended. Many such programs
// end as soon as they have found another one for the task.
func (o *opener) answer(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(o.life.Context(), func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(openTimeout))
	var r openRequest
	if json.NewDecoder(io.LimitReader(conn, maxOpenRequest)).Decode(&r) != nil || !slices.Contains(shadowed, filepath.Base(r.Path)) {
		return
	}
	cmd := exec.Cmd{Path: r.Path, Args: r.Args, Dir: r.Dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	cmd.Env = append([]string{}, r.Env...) // never nil, which would be our own
	if cmd.Start() != nil {
		return
	}
	defer cmd.Process.Release()
	conn.SetDeadline(time.Time{})
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var status syscall.WaitStatus
		if got, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); got == cmd.Process.Pid || err != nil && err != syscall.EINTR {
			fmt.Fprintln(conn, max(status.ExitStatus(), 0))
			return
		}
		if signal.Within(o.life.Done(), pause) {
			return
		}
	}
}

// Open is the whole of a program that is started by a link of an opener, with the
// arguments args and its name before them. It returns at once if the program was not
// started so. Otherwise it exits, or becomes the program that the link shadows.
func Open(args []string) {
	folder := os.Getenv(openVariable)
	if len(args) == 0 || folder == "" || !slices.Contains(shadowed, filepath.Base(args[0])) {
		return
	}
	name := filepath.Base(args[0])
	links := filepath.Join(folder, "bin")
	folders := slices.DeleteFunc(program.Folders(os.Getenv("PATH")), func(f string) bool { return filepath.Clean(f) == links })
	path, ok := program.Search(name, folders)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: not found\n", name)
		os.Exit(127)
	}
	if name != "gio" || len(args) > 1 && args[1] == "open" {
		if code, err := askToOpen(filepath.Join(folder, "socket"), path, args, program.Join(folders)); err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, cmp.Or(syscall.Exec(path, args, os.Environ()), errors.New("not executed")))
	os.Exit(126)
}

// askToOpen has the router start the program without the marks of a server, and returns
// its exit code.
func askToOpen(socket, path string, args []string, search string) (code int, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{MarkVariable, DepthVariable, openVariable, "PATH"}, name)
	})
	conn, err := net.DialTimeout("unix", socket, openTimeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(openRequest{path, args, append(env, "PATH="+search), dir}); err != nil {
		return 0, err
	}
	_, err = fmt.Fscan(conn, &code)
	return code, err
}
