package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/auditlog"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

// maxShown bounds --last.
const maxShown = 100_000

func newAuditCommand(env *environment) *cobra.Command {
	var head string
	verify := newCommand("verify [FILE]", "Check that no line of the audit log was edited or removed",
		`  metarouter audit verify
  metarouter audit verify /var/log/metarouter/audit.jsonl
  metarouter audit verify --head 5f2c…`,
		arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
			return verifyAudit(ctx, env, append(args, "")[0], head)
		})
	verify.Long = `Reads FILE, or the log of the configuration in use, with all files that are kept, the
oldest first. If each line has the hash of the line before, it prints the number of events
and the hash of the last line. Otherwise it prints the file, the line and what is wrong,
and the exit code is 1.

The hashes need no key: who can write to the file can write all of it again, or cut off its
end. Note the hash of the last line at another place now and then, and give it with --head:
then this shows, too.`
	verify.Flags().StringVar(&head, "head", "", "Check that the line with this `hash`, which 'metarouter audit verify' printed before, is still in the log. By default only the lines themselves are compared.")

	last := 20
	cmd := newCommand("audit [verify]", "Show what administrators and clients did besides calls",
		"  metarouter audit\n  metarouter audit --last 100 --json\n  metarouter audit verify",
		noArguments, func(ctx context.Context, _ []string) error { return showAudit(ctx, env, last) })
	cmd.Long = `Shows the last events of the audit log: logins, refused requests, approvals, starts and
stops of servers, edits of the configuration, logins at remote servers. A router that
serves over HTTP keeps the log in the data folder (audit.jsonl), unless "audit" in
"metarouter" of the configuration names another file, or is false.`
	cmd.Flags().IntVar(&last, "last", last, "Show this `number` of events.")
	addJSONFlag(env, cmd)
	cmd.AddCommand(verify)
	return cmd
}

// auditLogFile returns the audit log to read: file, unless it is "", else that of the configuration
// in use.
func auditLogFile(env *environment, file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	c, _, err := env.files.Locate() // it starts nothing, and needs no trust
	if _, none := errors.AsType[*configfile.NoConfiguration](err); err != nil && !none {
		return "", err
	}
	switch named := c.Router.Audit.File; {
	case filepath.IsAbs(named):
		return named, nil
	case named != "":
		return "", exit.Usage(fmt.Errorf("the configuration is not trusted, so that it is not known which file %q is; run 'metarouter trust', or name the file", named))
	case env.files.Data == "":
		return "", exit.Usage(errors.New("without a data folder (--data) there is no audit log; name its file"))
	}
	return auditlog.File(env.files.Data), nil
}

// noAuditLog explains that a log does not exist.
func noAuditLog(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf(`there is no audit log %s: a router that serves over HTTP writes it, or one whose configuration has "audit" with a file`, file)
	}
	return err
}

func verifyAudit(ctx context.Context, env *environment, file, head string) error {
	if head != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(head) {
		return exit.Usage(errors.New("--head needs the whole hash of a line: 64 digits, as 'metarouter audit verify' prints it"))
	}
	file, err := auditLogFile(env, file)
	if err != nil {
		return err
	}
	report, err := audit.Verify(ctx, file, head)
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	if err != nil {
		return noAuditLog(file, err)
	}
	if report.Events == 0 {
		env.Say("%s has no event yet.", file)
		return nil
	}
	env.Say("%s from %s to %s, intact; the last line has the hash %s", console.Counted(int(report.Events), "event"), report.First, report.Last, report.Hash)
	if head != "" {
		env.Say("%s after the line of --head.", console.Counted(int(report.After), "event"))
	}
	if report.Removed > 0 {
		env.Note("note: %s before the first one were in files that are no longer kept", console.Counted(int(report.Removed), "event"))
	}
	for _, gap := range report.Gaps {
		env.Note("note: %s:%d: %s", gap.File, gap.Line, gap.Reason)
	}
	return nil
}

func showAudit(ctx context.Context, env *environment, last int) error {
	if last < 1 || last > maxShown {
		return exit.Usage(fmt.Errorf("--last must be from 1 to %d", maxShown))
	}
	file, err := auditLogFile(env, "")
	if err != nil {
		return err
	}
	entries, err := audit.Last(ctx, file, last)
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	if err != nil {
		return noAuditLog(file, err)
	}
	if env.JSON {
		return env.PrintJSON(append([]audit.Entry{}, entries...))
	}
	if len(entries) == 0 {
		env.Note("%s has no event yet", file)
		return nil
	}
	return env.PrintTable(func(t console.Table) {
		t.Row("TIME", "WHO", "FROM", "WHAT", "OUTCOME", "ON", "WHY")
		for _, e := range entries {
			t.Row(e.Time, cmp.Or(e.Principal, "-"), cmp.Or(e.From, "-"), e.Action, e.Outcome, cmp.Or(e.Target, "-"), cmp.Or(e.Reason, "-"))
		}
	})
}

// recordHere records that a command, which the running router r carries out, has acted on a server.
func recordHere(r *adapter.Parts, server, what string, err error) {
	e := audit.Event{Action: audit.Control, Outcome: audit.OK, Principal: configfile.UserName(), From: "terminal", Target: server, Reason: what}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, what+": "+err.Error()
	}
	r.Audit(e)
}
