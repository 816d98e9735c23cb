package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/logins"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
)

func newLoginCommand(local *service.Runner) *cobra.Command {
	var o logins.Options
	cmd := newCommand("login NAME", "Log in to a remote server with a browser, for all clients",
		`  metarouter login linear
  metarouter login linear --paste     # the browser is on another machine
  metarouter login linear --device    # enter a code on any device`,
		exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return logins.LogIn(ctx, local, args[0], o) })
	cmd.Long = `Logs in to a remote server (OAuth), once for all clients. It opens the browser, and waits
up to 5 minutes for you. A line on stdout is the URL to open; all else is on stderr. Routers that run use the login at once.

The login is kept encrypted next to your own configuration, and is renewed until
'metarouter logout' ends it.`
	cmd.Flags().BoolVar(&o.NoBrowser, "no-browser", false, "Only print the URL, for a browser of this machine. By default the browser is opened, unless you are logged in over SSH or there is no terminal.")
	cmd.Flags().BoolVar(&o.Paste, "paste", false, "Ask for the URL at which the browser ends, or read it from stdin, for a browser on another machine. By default the browser comes back by itself; on a terminal, the URL can be pasted all the same.")
	cmd.Flags().BoolVar(&o.Device, "device", false, "Print a URL, and on a second line of stdout a code to enter there, on any device. Not all servers can do this. By default the browser needs no code.")
	cmd.Flags().StringArrayVar(&o.Scopes, "scope", nil, "Ask for this `scope` besides those that the server names and those of the last login. Repeat the flag for several.")
	return cmd
}

func newLogoutCommand(local *service.Runner) *cobra.Command {
	user := ""
	cmd := newCommand("logout NAME", "End the login at a remote server, for all clients",
		"  metarouter logout linear\n  metarouter logout linear --user ann",
		exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return logins.LogOut(ctx, local, args[0], user) })
	cmd.Flags().StringVar(&user, "user", "", "End the login of this `user` of the router, by the name or the ID that 'metarouter logins' prints. By default it is your own login, or that of all clients.")
	cmd.Long = `Forgets the login at a remote server, and has its issuer revoke the tokens. Routers that run stop
using it at once. If the issuer does not revoke the tokens, the exit code is 1, and the login is forgotten all the same.`
	return cmd
}

func newLoginsCommand(out *console.Console) *cobra.Command {
	cmd := newCommand("logins", "Print who is logged in to which remote server",
		"  metarouter logins\n  metarouter logins --json",
		noArguments, func(ctx context.Context, _ []string) error { return logins.List(ctx, out) })
	cmd.Long = `Prints the logins at remote servers: yours, and those of users at servers with "credentials": "user".
To end one, run: metarouter logout NAME --user USER`
	addJSONFlag(cmd, out)
	return cmd
}

func newSecretCommand(files *configfile.Source) *cobra.Command {
	from, user := "", false
	set := newCommand("set NAME", "Store a secret, or another value for it",
		"  metarouter secret set GITHUB_TOKEN\n  metarouter secret set GITHUB_TOKEN --from github\n  pass show github | metarouter secret set GITHUB_TOKEN",
		exactly("name one secret; the value is asked for, or read from stdin"),
		func(ctx context.Context, args []string) error { return edit.SetSecret(ctx, files, args[0], from, user) })
	set.Flags().StringVar(&from, "from", "", "Move the value out of the entry of this `server`: NAME is stored, and ${keyring:NAME} is written in its place. By default the value is asked for, or read from stdin.")
	set.Flags().BoolVar(&user, "user", false, "Set your own value for servers with ${user:NAME} in their headers, as the router's own user. Users over HTTP set theirs at /account of the router. By default the secret is for ${keyring:NAME}.")
	set.MarkFlagsMutuallyExclusive("from", "user")
	list := newCommand("list", "Print the names of the secrets and the servers that use them",
		"  metarouter secret list\n  metarouter secret list --json",
		noArguments, func(context.Context, []string) error { return edit.ListSecrets(files) })
	addJSONFlag(list, files.Console)
	rm := newCommand("rm NAME", "Remove a stored secret", "  metarouter secret rm GITHUB_TOKEN",
		exactly("name one secret"), func(ctx context.Context, args []string) error { return edit.RemoveSecret(ctx, files, args[0]) })

	cmd := newCommand("secret set|list|rm", "Store secrets for servers, encrypted",
		"  metarouter secret set GITHUB_TOKEN\n  metarouter secret list",
		func(*cobra.Command, []string) error { return errors.New("one of set, list and rm is missing") }, nil)
	cmd.Long = `Stores values that an entry refers to as ${keyring:NAME}, in its env, args, headers or
url. They are in an encrypted file next to your own configuration, whose key is in the
system's keyring. Without a keyring, the key is in a file that only you can read.

A server gets a new value when it starts again.`
	cmd.AddCommand(set, list, rm)
	return cmd
}

func newTokenCommand(files *configfile.Source) *cobra.Command {
	var entry edit.TokenEntry
	var role string
	create := newCommand("new", "Make a token, and print it with its line for the configuration",
		`  metarouter token new --name ci --profile work
  metarouter token new --name ops --role admin --json`,
		noArguments, func(context.Context, []string) error {
			entry.Role = role
			return edit.NewToken(files, entry)
		})
	create.Long = `Makes a token of 256 random bits. The first line on stdout is the token; give it to the
client, which sends it as "Authorization: Bearer TOKEN". The second line goes into
"tokens" of "http" in the configuration. It has the SHA-256 hash of the token alone, so
the file holds no secret. The token is printed once and stored nowhere.

To revoke the token, remove its line: a running router refuses the token as soon as the
file is saved, and ends its sessions and calls.`
	create.Flags().StringVar(&entry.Name, "name", "", "Show this `name` for the token's clients in logs and on the page. By default they are shown by the first 8 digits of the hash.")
	create.Flags().StringVar(&entry.Profile, "profile", "", "Let clients with this token see and use what this `profile` of the configuration allows. By default the URL decides.")
	create.Flags().StringVar(&role, "role", "", "Let clients do what this `role` may: \"use\" calls tools; \"admin\" uses the page too, with the calls of all clients and the restart of servers. (default use)")
	addJSONFlag(create, files.Console)
	cmd := newCommand("token new", "Make tokens for clients over HTTP",
		"  metarouter token new --name ci --profile work",
		func(*cobra.Command, []string) error { return errors.New("the subcommand new is missing") }, nil)
	cmd.Long = create.Long
	cmd.AddCommand(create)
	return cmd
}

func newAuditCommand(files *configfile.Source) *cobra.Command {
	var head string
	verify := newCommand("verify [FILE]", "Check that no line of the audit log was edited or removed",
		`  metarouter audit verify
  metarouter audit verify /var/log/metarouter/audit.jsonl
  metarouter audit verify --head 5f2c…`,
		arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
			file, err := files.AuditLog(append(args, "")[0])
			if err != nil {
				return err
			}
			return configfile.VerifyAudit(ctx, files.Console, file, head)
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
		noArguments, func(ctx context.Context, _ []string) error {
			file, err := files.AuditLog("")
			if err != nil {
				return err
			}
			return configfile.ShowAudit(ctx, files.Console, file, last)
		})
	cmd.Long = `Shows the last events of the audit log: logins, refused requests, approvals, starts and
stops of servers, edits of the configuration, logins at remote servers. A router that
serves over HTTP keeps the log in the data folder (audit.jsonl), unless "audit" in
"metarouter" of the configuration names another file, or is false.`
	cmd.Flags().IntVar(&last, "last", last, "Show this `number` of events.")
	addJSONFlag(cmd, files.Console)
	cmd.AddCommand(verify)
	return cmd
}
