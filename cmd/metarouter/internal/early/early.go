//go:build unix

// Package early runs the process guard before most of the program is initialised.
//
// The initialisation of this package comes before the initialisation of nearly all others: see package
// keeper. If the process was started as the guard, it is the process's whole life, and the
// process exits in it. Only the command metarouter imports the package, so that no other
// program that uses the module has such an initialisation.
package early

import (
	"os"
	"syscall"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
)

func init() {
	if debug, ok := isGuard(os.Args, os.Environ()); ok && isSocket(syscall.Stdin) {
		if !debug {
			hideProcess()
		}
		keeper.Run(os.Stdin)
		os.Exit(0)
	}
}

// ours begins the names of all variables that are for this program.
const ours = "METAROUTER_"

// isGuard reports whether the command line starts the process guard, and whether it
// asks that other processes may look into the guard.
//
// A program that was started by a link for xdg-open, or as the shell of npx, has another
// task whatever its arguments are: it has a variable of ours, and the guard does not.
func isGuard(args, env []string) (debug, ok bool) {
	for _, variable := range env {
		if len(variable) > len(ours) && variable[:len(ours)] == ours {
			return false, false
		}
	}
	switch {
	case len(args) == 2:
		return false, args[1] == "guard"
	case len(args) == 3:
		return true, args[1] == "guard" && args[2] == "--debug"
	}
	return false, false
}

// isSocket reports whether the descriptor is a local socket, as the router gives the guard.
// A user who types the guard's command does not have it.
func isSocket(fd int) bool {
	address, err := syscall.Getsockname(fd)
	_, local := address.(*syscall.SockaddrUnix)
	return err == nil && local
}
