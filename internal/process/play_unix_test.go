//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// play plays a part in a test. Each process that is to be looked for writes its id to the
// file of its name in the folder.
func play(args []string) {
	role, folder := args[0], args[1]
	self, _ := os.Executable()
	enter := func(name string) {
		os.WriteFile(filepath.Join(folder, name+".new"), fmt.Append(nil, os.Getpid()), 0o600)
		os.Rename(filepath.Join(folder, name+".new"), filepath.Join(folder, name))
	}
	// start starts another part, in its own session.
	start := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.Command(self, append([]string{"play"}, args...)...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		return cmd
	}
	switch role {
	case "router": // starts a server that plays the rest of the arguments, and is killed
		s := NewStarter(guardCommand(), make(chan struct{}), zap.NewNop())
		if err := s.Open(); err != nil {
			panic(err)
		}
		if _, err := s.Start(Command{Path: self, Args: append([]string{"play", args[2], folder}, args[3:]...), Env: os.Environ()}); err != nil {
			panic(err)
		}
		enter("router")
		time.Sleep(time.Hour)
	case "server": // leaves an orphan of the kind in args[2], and goes on until its stdin ends
		start(nil, "between", folder, args[2]).Wait()
		enter("server")
		io.Copy(io.Discard, os.Stdin)
	case "between": // ends, so that what it starts has no parent
		env := []string{}
		if args[2] == "marked" {
			env = os.Environ()
		}
		if args[2] == "hidden" {
			hideFromLimits()
		}
		start(env, "sleeper", folder, args[2])
	case "sleeper":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		enter(args[2])
		time.Sleep(time.Hour)
	case "opener": // opens a page for the user, and goes on until its stdin ends
		if err := exec.Command("xdg-open", folder).Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		enter("server")
		io.Copy(io.Discard, os.Stdin)
	case "playwright": // starts a browser in its own session, which has an environment of its own
		env := []string{"HOME=" + folder, "BROWSER_ARGS=" + strings.Join(args, " ")}
		start(env, "browser", folder, args[2])
		enter("server")
		io.Copy(io.Discard, os.Stdin)
	case "browser": // has a helper that leaves it, and a renderer in its own session
		start(nil, "between", folder, "crash-handler").Wait()
		start(nil, "sleeper", folder, "renderer")
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		if args[2] == "without its first thread" {
			endFirstThread()
		}
		enter("browser")
		time.Sleep(time.Hour)
	}
}
