package process

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// ReportVariable is set in the environment of a program that must call [Report].
const ReportVariable = "METAROUTER_REPORT"

// ShellVariable is npm's setting of the shell that runs scripts.
const ShellVariable = "npm_config_script_shell"

// ReportEnvironment is the argument by which [Report] is asked for its environment.
const ReportEnvironment = "environment"

// A Reported is what a package runner would have run, as [Report] writes it.
type Reported struct {
	Command []byte   `json:"command,omitempty"` // that npx gave to its shell; nil for uvx
	Env     [][]byte `json:"env"`               // bytes, since not all that is in an environment is UTF-8
}

// Report is the whole of the program that npm runs as its shell, and uvx instead of a package's program.
// It writes the command that npx has for the shell and its environment to w, as a line that begins with the value of
// ReportVariable. The scripts of packages that npm installs meanwhile are run by the
// system's shell.
func Report(w io.Writer, args []string) error {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, ReportVariable+"=") || strings.HasPrefix(v, ShellVariable+"=")
	})
	var r Reported
	switch {
	case len(args) == 1 && args[0] == ReportEnvironment:
	case len(args) == 2 && args[0] == "-c" && os.Getenv("npm_lifecycle_event") == "npx":
		r.Command = []byte(args[1])
	default:
		return syscall.Exec("/bin/sh", append([]string{"sh"}, args...), env)
	}
	for _, v := range env {
		r.Env = append(r.Env, []byte(v))
	}
	b, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s %s\n", os.Getenv(ReportVariable), b)
	}
	return err
}
