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
	cmd := newCommand("login", exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return logins.LogIn(ctx, local, args[0], o) })
	cmd.Flags().BoolVar(&o.NoBrowser, "no-browser", false, "Only print the URL, for a browser of this machine. By default the browser is opened, unless you are logged in over SSH or there is no terminal.")
	cmd.Flags().BoolVar(&o.Paste, "paste", false, "Ask for the URL at which the browser ends, or read it from stdin, for a browser on another machine. By default the browser comes back by itself; on a terminal, the URL can be pasted all the same.")
	cmd.Flags().BoolVar(&o.Device, "device", false, "Print a URL, and on a second line of stdout a code to enter there, on any device. Not all servers can do this. By default the browser needs no code.")
	cmd.Flags().StringArrayVar(&o.Scopes, "scope", nil, "Ask for this `scope` besides those that the server names and those of the last login. Repeat the flag for several.")
	return cmd
}

func newLogoutCommand(local *service.Runner) *cobra.Command {
	user := ""
	cmd := newCommand("logout", exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return logins.LogOut(ctx, local, args[0], user) })
	cmd.Flags().StringVar(&user, "user", "", "End the login of this `user` of the router, by the name or the ID that 'metarouter logins' prints. By default it is your own login, or that of all clients.")
	return cmd
}

func newLoginsCommand(out *console.Console) *cobra.Command {
	cmd := newCommand("logins", noArguments, func(ctx context.Context, _ []string) error { return logins.List(ctx, out) })
	addJSONFlag(cmd, out)
	return cmd
}

func newSecretCommand(files *configfile.Source) *cobra.Command {
	from, user := "", false
	set := newCommand("secret set", exactly("name one secret; the value is asked for, or read from stdin"),
		func(ctx context.Context, args []string) error { return edit.SetSecret(ctx, files, args[0], from, user) })
	set.Flags().StringVar(&from, "from", "", "Move the value out of the entry of this `server`: NAME is stored, and ${keyring:NAME} is written in its place. By default the value is asked for, or read from stdin.")
	set.Flags().BoolVar(&user, "user", false, "Set your own value for servers with ${user:NAME} in their headers, as the router's own user. Users over HTTP set theirs at /account of the router. By default the secret is for ${keyring:NAME}.")
	set.MarkFlagsMutuallyExclusive("from", "user")
	list := newCommand("secret list", noArguments, func(context.Context, []string) error { return edit.ListSecrets(files) })
	addJSONFlag(list, files.Console)
	rm := newCommand("secret rm", exactly("name one secret"), func(ctx context.Context, args []string) error { return edit.RemoveSecret(ctx, files, args[0]) })

	cmd := newCommand("secret", func(*cobra.Command, []string) error { return errors.New("one of set, list and rm is missing") }, nil)
	cmd.AddCommand(set, list, rm)
	return cmd
}

func newTokenCommand(files *configfile.Source) *cobra.Command {
	var entry edit.TokenEntry
	create := newCommand("token new", noArguments, func(context.Context, []string) error { return edit.NewToken(files, entry) })
	create.Flags().StringVar(&entry.Name, "name", "", "Show this `name` for the token's clients in logs and on the page. By default they are shown by the first 8 digits of the hash.")
	create.Flags().StringVar(&entry.Profile, "profile", "", "Let clients with this token see and use what this `profile` of the configuration allows. By default the URL decides.")
	create.Flags().StringVar(&entry.Role, "role", "", "Let clients do what this `role` may: \"use\" calls tools; \"admin\" uses the page too, with the calls of all clients and the restart of servers. (default use)")
	addJSONFlag(create, files.Console)
	cmd := newCommand("token", func(*cobra.Command, []string) error { return errors.New("the subcommand new is missing") }, nil)
	cmd.Long = create.Long
	cmd.AddCommand(create)
	return cmd
}

func newAuditCommand(files *configfile.Source) *cobra.Command {
	var head string
	verify := newCommand("audit verify", arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
		file, err := files.AuditLog(append(args, "")[0])
		if err != nil {
			return err
		}
		return configfile.VerifyAudit(ctx, files.Console, file, head)
	})
	verify.Flags().StringVar(&head, "head", "", "Check that the line with this `hash`, which 'metarouter audit verify' printed before, is still in the log. By default only the lines themselves are compared.")

	cmd := newCommand("audit", func(*cobra.Command, []string) error { return errors.New("the subcommand verify is missing") }, nil)
	cmd.Long = verify.Long
	cmd.AddCommand(verify)
	return cmd
}
