package doctor

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/containers"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// checkContainer names options of a container without which its server does not work, or leaves
// something behind.
func checkContainer(x *findings, entry config.Server) {
	if entry.Transport != config.Stdio {
		return
	}
	run, unknown := containers.Of(entry.Command, entry.Args)
	if unknown != "" {
		x.add(Warning, fmt.Sprintf("metarouter does not know its option %q, so it can't tell which argument is the image. It starts the container as it is written, and can't stop it if the router is killed.", plain.Line(unknown)),
			`write it in its long form with "=": --option=VALUE, or --option=true if it has no value`)
		return
	}
	if run == nil {
		return
	}
	if run.Detached {
		x.add(Warning, "its container runs in the background (-d), so no message reaches it.", `remove "-d" from "args", and write "-i" there`)
	} else if !run.Interactive {
		x.add(Warning, "its container has no stdin, so no message reaches it.", `write "-i" into "args", after "run"`)
	}
	if !run.Remove {
		x.add(Warning, "each start leaves a stopped container behind.", `write "--rm" into "args", after "run"`)
	}
	if run.Name != "" {
		x.add(Warning, fmt.Sprintf("its container has the fixed name %q, so no second one can run: not for another client or router, nor for a client that needs a process of its own.", plain.Line(run.Name)),
			`remove "--name" from "args"`)
	}
	if run.CIDFile != "" {
		x.add(Warning, "its container starts once only: the file of \"--cidfile\" then exists, for which it is refused.", `remove "--cidfile" from "args"; metarouter adds one for each start`)
	}
}
