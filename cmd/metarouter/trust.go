package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

func newTrustCommand(env *environment) *cobra.Command {
	var h hintOptions
	cmd := newCommand("trust [FILE]", "Approve the .mcp.json of a project, so that it may be used",
		`  metarouter trust
  metarouter trust ../other/.mcp.json
  metarouter trust --hints github`,
		arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
			switch {
			case h.server != "" && len(args) > 0:
				return usage(errors.New("--hints confirms hints of a server's tools, and approves no file; --config names the file that has the server"))
			case h.server != "":
				return runTrustHints(ctx, env, h)
			case env.running != nil:
				return usage(errors.New("a running router approves no file"))
			case h.show:
				return usage(errors.New("--show is for --hints; 'metarouter check' shows what is wrong with a file"))
			}
			path := ".mcp.json"
			if len(args) == 1 {
				path = args[0]
			}
			return runTrust(ctx, env, path)
		})
	cmd.Long = `Approves FILE, or the .mcp.json of the current folder, and prints what it says: all
but limits and other settings that do no harm, as it is written, with variables not
replaced by their values. What differs from the text that you approved before is marked,
and shown with its limits. On a terminal, it asks first. Approve the file again after each
edit.

With --hints it prints how hints of the server's tools changed since they were last
confirmed, such as readOnlyHint, and confirms them as they are known now: until then such a
tool does not count as one that only reads. It starts no server and approves no file.`
	cmd.Flags().StringVar(&h.server, "hints", "", "Confirm the hints (readOnlyHint, destructiveHint, idempotentHint) that tools of this `server` changed, instead of approving a file.")
	cmd.Flags().BoolVar(&h.show, "show", false, "With --hints, print only what changed, and confirm nothing. By default it is confirmed.")
	return cmd
}

func runTrust(ctx context.Context, env *environment, path string) error {
	c, err := config.LoadText(path)
	if err != nil {
		return usage(unreadable(err))
	}
	if n := len(errorsOf(c)); n > 0 {
		env.note("note: the text has %s; 'metarouter check' shows what to correct", counted(n, "error"))
	}
	u, waits := errors.AsType[*config.Untrusted](c.Trusted(env.data))
	ask := waits && env.data != "" && canAsk(env) && isTerminal(env.streams[1]) // a script is not asked
	if ask {
		switch yes, err := trust.Ask(ctx, readLine(env), env.stderr, u); {
		case err != nil:
			return errInterrupted
		case !yes:
			return usage(errors.New("not trusted, nothing was changed"))
		}
	}
	if err := approve(env, c); err != nil {
		return err
	}
	said := "."
	if !ask {
		said = ". It says:\n" + trust.Describe(c, u)
	}
	_, err = fmt.Fprintf(env.stdout, "%s is trusted. If it changes, run 'metarouter trust' again%s", trust.Quote(c.Files[0]), strings.TrimSuffix(said, "\n")+"\n")
	return err
}

// requireTrust makes sure that a configuration that --config does not name may be used:
// it was approved before, or the user approves it at the terminal now. It returns the
// configuration with its variables expanded.
func requireTrust(ctx context.Context, env *environment, c config.Config) (config.Config, error) {
	err := c.Trusted(env.data)
	u, ok := errors.AsType[*config.Untrusted](err)
	switch {
	case err == nil:
		return c.Expand(), nil
	case !ok:
		return c, usage(err)
	case !canAsk(env):
		return c, usage(fmt.Errorf("%w (or name it with --config %s)", trust.Explain(u, trustCommand(env, "")), c.Files[0]))
	}
	switch yes, err := trust.Ask(ctx, readLine(env), env.stderr, u); {
	case err != nil:
		return c, errInterrupted
	case !yes:
		return c, usage(errors.New("not trusted, nothing was started"))
	}
	if env.data == "" {
		return c.Expand(), nil // approved for this run only
	}
	return c.Expand(), approve(env, c)
}

// approve approves the text of a configuration, and records that.
func approve(env *environment, c config.Config) error {
	if err := c.Trust(env.data); err != nil {
		return err
	}
	recordCommand(env, audit.Event{Action: audit.Edit, Outcome: audit.OK, Target: strings.Join(c.Files, ", "), Reason: "approved; hash " + c.Digest()})
	return nil
}

// canAsk reports whether a person at a terminal can be asked.
func canAsk(env *environment) bool {
	return !env.noQuestions && isTerminal(env.streams[0]) && isTerminal(env.streams[2])
}

// readLine returns what reads the answer to a question from the terminal.
func readLine(env *environment) func(context.Context, func()) (string, error) {
	f := env.streams[0].(*os.File)
	return func(ctx context.Context, question func()) (string, error) {
		return terminal.ReadLine(ctx, f, question)
	}
}

// trustCommand returns the command that approves a file; "" is the .mcp.json of the current
// folder.
func trustCommand(env *environment, file string) string {
	data := env.data
	if data == defaultData() {
		data = ""
	}
	return trust.Command(file, data)
}
