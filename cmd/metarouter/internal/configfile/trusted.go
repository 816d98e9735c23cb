package configfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// A Waiting is the error for a text that waits for a person's approval, with the command that
// approves it.
type Waiting struct {
	*trustfile.Untrusted
	Command string
}

func (w *Waiting) Error() string {
	return plain.Line(w.Untrusted.Error()) + "; read it, then run: " + w.Command
}

func (w *Waiting) Unwrap() error { return w.Untrusted }

// Explain adds the command to an error of [trustfile.Text.Trusted] for a text that waits for
// approval. Other errors stay as they are.
func Explain(err error, command string) error {
	if u, ok := errors.AsType[*trustfile.Untrusted](err); ok {
		return &Waiting{u, command}
	}
	return err
}

// Trust approves the file at path, and prints a description of it. A person at the terminal is asked first.
func (s *Source) Trust(ctx context.Context, path string) error {
	c, err := config.LoadText(path)
	if err != nil {
		return console.Usage(Unreadable(err))
	}
	if n := len(Errors(c)); n > 0 {
		s.Console.Note("note: the text has %s; 'metarouter check' shows what to correct", console.Counted(n, "error"))
	}
	u, waits := errors.AsType[*trustfile.Untrusted](c.Text.Trusted(s.Data))
	ask := waits && s.Data != "" && s.Console.CanAsk() && console.IsTerminal(s.Console.Streams[1]) // a script is not asked
	if ask {
		if err := s.ask(ctx, u, "nothing was changed"); err != nil {
			return err
		}
	}
	if err := s.approve(c); err != nil {
		return err
	}
	said := "."
	if !ask {
		said = ". It says:\n" + Describe(c.Text, u)
	}
	_, err = fmt.Fprintf(s.Console.Out, "%s is trusted. If it changes, run 'metarouter trust' again%s", Quote(c.Files[0]), strings.TrimSuffix(said, "\n")+"\n")
	return err
}

// RequireTrust makes sure that a configuration that --config does not name may be used:
// it was approved before, or the user approves it at the terminal now. It returns the
// configuration with its variables expanded.
func (s *Source) RequireTrust(ctx context.Context, c config.Config) (config.Config, error) {
	err := c.Text.Trusted(s.Data)
	u, waits := errors.AsType[*trustfile.Untrusted](err)
	switch {
	case err == nil:
	case !waits:
		return c, console.Usage(err)
	case !s.Console.CanAsk():
		own := ""
		if path, err := configpath.Own(); err == nil && clients.Exists(path) {
			own = ", or use your own servers: --config " + commandline.Quote(path)
		}
		return c, console.Usage(fmt.Errorf("%w (or name it with --config %s%s)", Explain(u, s.TrustCommand("")), commandline.Quote(c.Files[0]), own))
	default:
		err := s.ask(ctx, u, "nothing was started")
		if err == nil && s.Data != "" { // else approved for this run only
			err = s.approve(c)
		}
		if err != nil {
			return c, err
		}
	}
	c, err = c.Expand()
	return c, console.Usage(err)
}

// ask shows on stderr a text that is not trusted, and how it differs from the approved one, and asks the person at the terminal whether
// to use it. A no is an error, which says that nothing was done.
func (s *Source) ask(ctx context.Context, u *trustfile.Untrusted, nothing string) error {
	fmt.Fprintf(s.Console.Err, "%s. It says:\n%s", plain.Line(u.Error()), Describe(u.Text, u))
	switch yes, err := s.Console.Confirm(ctx, "Use it? [y/N]"); {
	case err != nil:
		return console.Interrupted
	case !yes:
		return console.Usage(errors.New("not trusted, " + nothing))
	}
	return nil
}

// approve approves the text of a configuration, and records that.
func (s *Source) approve(c config.Config) error {
	if err := c.Text.Trust(s.Data); err != nil {
		return err
	}
	s.Record(audit.Event{Action: audit.Edit, Outcome: audit.OK, Target: strings.Join(c.Files, ", "), Reason: "approved; hash " + c.Text.Digest()})
	return nil
}

// TrustCommand returns the command that approves a file; "" is the .mcp.json of the current
// folder.
func (s *Source) TrustCommand(file string) string {
	command := "metarouter trust"
	if file != "" {
		command += " " + commandline.Quote(plain.Line(file))
	}
	if s.Data != "" && s.Data != DefaultData() {
		command += " --data " + commandline.Quote(plain.Line(s.Data))
	}
	return command
}

// auditTime is how long a command waits until its event is written.
const auditTime = 5 * time.Second

// Record is [RecordAudit] for the configuration in use.
func (s *Source) Record(e audit.Event) {
	c, _ := s.Usable()
	RecordAudit(s, c, e, nil)
}

// RecordAudit records an act of a command, if the configuration names an audit log, or a router that serves keeps one
// in the data folder. mask hides secrets, as in [audit.Options]. A log that can't be written is noted: the command has done
// its work.
func RecordAudit(s *Source, c config.Config, e audit.Event, mask func(string) string) {
	o := AuditOptions(c, s.Data)
	if o.File == "" || c.Router.Audit.File == "" && !audit.Exists(o.File) {
		return
	}
	o.Mask = mask
	l, err := audit.Open(o)
	if err == nil {
		e.Principal, e.From = cmp.Or(e.Principal, UserName()), cmp.Or(e.From, "terminal")
		l.Record(e)
		ctx, cancel := context.WithTimeout(context.Background(), auditTime)
		defer cancel()
		err = l.Close(ctx)
	}
	if err != nil {
		s.Console.Note("note: the audit log can't be written: %v", err)
	}
}

// UserName returns the name of the user of this process.
func UserName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// AuditLog returns the audit log to read: file, unless it is "", else the log of the configuration
// in use.
func (s *Source) AuditLog(file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	c, _, err := s.Locate() // it starts nothing, and needs no trust
	if _, none := errors.AsType[*NoConfiguration](err); err != nil && !none {
		return "", fmt.Errorf("%w; or name the file of the audit log", err)
	}
	switch named := c.Router.Audit.File; {
	case filepath.IsAbs(named):
		return named, nil
	case named != "":
		return "", console.Usage(fmt.Errorf("the configuration is not trusted, so that it is not known which file %q is; run 'metarouter trust', or name the file", named))
	case s.Data == "":
		return "", console.Usage(errors.New("without a data folder (--data) there is no audit log; name its file"))
	}
	return auditFile(s.Data), nil
}
