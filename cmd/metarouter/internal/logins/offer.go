package logins

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// Offer offers the logins at servers of the configuration files that were just written: on a
// terminal it asks once, else it prints the commands. A login that fails is no error.
func Offer(ctx context.Context, local *service.Runner, files, names []string) error {
	out := local.Files.Console
	if len(names) == 0 {
		return nil
	}
	if !out.CanAsk() {
		for _, name := range names {
			out.Note("next: metarouter login %s", commandline.Quote(name))
		}
		return nil
	}
	yes, err := out.Confirm(ctx, fmt.Sprintf("Log in to %s now? [y/N]", strings.Join(names, ", ")))
	if err != nil {
		return console.Interrupted
	}
	there := *local.Files
	there.Paths = files
	for _, name := range names {
		if yes {
			err := LogIn(ctx, &service.Runner{Files: &there, Version: local.Version, Debug: local.Debug}, name, Options{})
			if ctx.Err() != nil {
				return console.Interrupted
			}
			if err == nil {
				continue
			}
			out.Note("%v", err)
		}
		out.Note("to log in later: metarouter login %s", commandline.Quote(name))
	}
	return nil
}

// List prints the logins at remote servers, also logins of users of a router.
func List(ctx context.Context, out *console.Console) error {
	own, err := configpath.Own()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	kept := login.New(login.Options{Store: login.NewStore(filepath.Dir(own))})
	defer kept.Close()
	all, err := kept.All(ctx)
	if err != nil {
		return err
	}
	if out.JSON {
		return out.PrintJSON(all)
	}
	if len(all) == 0 {
		out.Note("no one has logged in to a remote server; to log in: metarouter login NAME")
		return nil
	}
	rows := []console.Row{console.Texts("SERVER", "USER", "ID", "ISSUER", "LAST USED")}
	for _, h := range all {
		rows = append(rows, console.Texts(plain.Line(h.Server), cmp.Or(plain.Line(h.User), "-"), cmp.Or(h.ID, "-"), plain.Line(h.Issuer), h.Used.Local().Format("2006-01-02 15:04")))
	}
	return out.PrintRows(rows, nil)
}

// LogOut forgets the login at a server, and has its issuer revoke the tokens. user names whose login it is; "" is the local user's,
// or of all clients.
func LogOut(ctx context.Context, local *service.Runner, name, user string) error {
	out := local.Files.Console
	c, err := local.Files.Load(ctx)
	if err != nil {
		return err
	}
	if user != "" {
		return endLogin(ctx, local, c, name, user)
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	if entry.URL == "" {
		return console.Usage(fmt.Errorf("%s runs on this machine; metarouter has no login for it", name))
	}
	if header := ownHeader(entry); header != "" { // it may have come after the login
		entry.Headers = maps.Clone(entry.Headers)
		delete(entry.Headers, header)
	}
	return local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Router) error {
		bounded, cancel := context.WithTimeout(ctx, beginTime)
		defer cancel()
		was, err := r.Logout(bounded, name, "")
		switch {
		case was && err != nil:
			return fmt.Errorf("logged out of %s, but its tokens may still be valid: %w; to revoke them, see the settings of your account there", name, err)
		case err != nil:
			return fmt.Errorf("the login at %s could not be ended: %w", name, err)
		case !was:
			out.Note("there is no login at %s", name)
			return nil
		}
		out.Say("Logged out of %s.", name)
		return nil
	})
}

// endLogin ends the login of a user at a server, whose entry may be gone.
func endLogin(ctx context.Context, local *service.Runner, c config.Config, name, user string) error {
	c.Problems = nil // of entries
	return local.Run(ctx, c, func(ctx context.Context, r *adapter.Router) error {
		bounded, cancel := context.WithTimeout(ctx, beginTime)
		defer cancel()
		if err := r.EndLogin(bounded, name, user); err != nil {
			return err
		}
		local.Files.Console.Say("Logged %s out of %s.", plain.Line(user), plain.Line(name))
		return nil
	})
}
