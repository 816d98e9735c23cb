//go:build linux

package telemetry

import (
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/mcp-metarouter/metarouter/"

// maxDepth bounds the functions of this module on the stack of a call, from the goroutine's
// first function to the write to the server's pipe.
const maxDepth = 13

var called = regexp.MustCompile(`(?m)^(\S.*)\([^()]*\)\n\t`)

// functions returns the functions of this module in a goroutine's stack, the outermost first.
func functions(stack string) (all []string) {
	for _, m := range called.FindAllStringSubmatch(stack, -1) {
		if name, ours := strings.CutPrefix(m[1], module); ours {
			all = append(all, name)
		}
	}
	slices.Reverse(all)
	// The write is a raw system call, so its goroutine stops in some function of package
	// pipe. The first one stands for all of them.
	if i := slices.IndexFunc(all, func(f string) bool { return strings.HasPrefix(f, "internal/pipe.") }); i >= 0 {
		all = all[:i+1]
	}
	return all
}

// writesToServer reports whether the stack belongs to a call in the write to the server.
func writesToServer(stack []string) bool {
	has := func(prefix string) bool {
		return slices.ContainsFunc(stack, func(f string) bool { return strings.HasPrefix(f, prefix) })
	}
	return has("internal/pipe.") && has("supervisor") && has("server")
}
