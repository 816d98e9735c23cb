package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

const (
	// dialogTime is how long the keyring may take while a person is at the terminal: it may
	// ask for its password. scriptTime is the same where no person is.
	dialogTime = time.Minute
	scriptTime = 10 * time.Second
)

func newSecretCommand(env *environment) *cobra.Command {
	set := newCommand("set NAME", "Store a secret, or another value for it",
		"  metarouter secret set GITHUB_TOKEN\n  pass show github | metarouter secret set GITHUB_TOKEN",
		exactly("name one secret; the value is asked for, or read from stdin"),
		func(ctx context.Context, args []string) error { return setSecret(ctx, env, args[0]) })
	list := newCommand("list", "Print the names of the secrets and the servers that use them",
		"  metarouter secret list\n  metarouter secret list --json",
		noArguments, func(context.Context, []string) error { return listSecrets(env) })
	addJSONFlag(env, list)
	rm := newCommand("rm NAME", "Remove a stored secret", "  metarouter secret rm GITHUB_TOKEN",
		exactly("name one secret"), func(ctx context.Context, args []string) error { return removeSecret(ctx, env, args[0]) })

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

// exactly checks that a command has one argument. The error is advice.
func exactly(advice string) cobra.PositionalArgs { return arguments(1, 1, advice) }

// openVault returns the user's secrets.
func openVault() (*vault.Vault, error) {
	own, err := config.Own()
	if err != nil {
		return nil, err
	}
	return vault.Of(own), nil
}

func setSecret(ctx context.Context, env *environment, name string) error {
	if !vault.ValidName(name) {
		return exit.Usage(fmt.Errorf("%q can't be the name of a secret; use up to 128 letters, digits, dots, dashes and underscores", name))
	}
	v, err := openVault()
	if err != nil {
		return err
	}
	value, err := readSecret(ctx, env, name)
	if err != nil {
		return err
	}
	patience := scriptTime
	if env.CanAsk() {
		patience = dialogTime
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keptInFile, err := v.Set(bounded, name, value)
	if err != nil {
		return err
	}
	env.Say("The secret %s is set.", name)
	env.files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: name, Reason: "set"})
	if keptInFile {
		env.Note("note: there is no keyring here, so the key of the secrets is in %s, which only you can read", v.KeyFile())
	}
	for _, server := range referringTo(env, name) {
		env.Note("note: %s gets it at its next start: metarouter restart %s", server, clients.Word(server))
	}
	return nil
}

// readSecret reads a value from the terminal without showing it, or from stdin.
func readSecret(ctx context.Context, env *environment, name string) (string, error) {
	if env.CanAsk() {
		return env.ReadHidden(ctx, fmt.Sprintf("Value of %s (it is not shown): ", name))
	}
	data, err := io.ReadAll(io.LimitReader(env.In, vault.MaxValue+3)) // the vault refuses what is too long
	if err != nil {
		return "", fmt.Errorf("read the value from stdin: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// A storedSecret is a row of 'secret list'.
type storedSecret struct {
	Name    string   `json:"name"`
	Servers []string `json:"servers"` // that refer to it
}

func listSecrets(env *environment) error {
	v, err := openVault()
	if err != nil {
		return err
	}
	names, err := v.Names()
	if err != nil {
		return err
	}
	all := []storedSecret{}
	for _, name := range names {
		all = append(all, storedSecret{name, append([]string{}, referringTo(env, name)...)})
	}
	if env.JSON {
		return env.PrintJSON(all)
	}
	if len(all) == 0 {
		env.Note("no secret is stored; to store one: metarouter secret set NAME")
		return nil
	}
	return env.PrintTable(func(t console.Table) {
		for _, s := range all {
			t.Row(s.Name, cmp.Or(strings.Join(s.Servers, ", "), "-"))
		}
	})
}

func removeSecret(ctx context.Context, env *environment, name string) error {
	v, err := openVault()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, dialogTime)
	defer cancel()
	if err := v.Remove(bounded, name); err != nil {
		return err
	}
	env.Say("The secret %s is removed.", name)
	env.files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: name, Reason: "removed"})
	for _, server := range referringTo(env, name) {
		env.Note("note: %s refers to it and does not start without it; edit its entry, or set the secret again", server)
	}
	return nil
}

// referringTo returns the servers that refer to a stored secret: of the configuration in
// use, and of the user's own. A configuration that can't be used has none.
func referringTo(env *environment, name string) (servers []string) {
	add := func(c config.Config) {
		for _, s := range c.Servers {
			if slices.ContainsFunc(s.References, func(r reference.Reference) bool { return r.Kind == reference.Keyring && r.Body == name }) && !slices.Contains(servers, s.Name) {
				servers = append(servers, s.Name)
			}
		}
	}
	if paths, named, err := env.files.Find(); err == nil {
		if c, usable, err := env.files.Read(paths, named); err == nil && usable {
			add(c)
		}
	}
	if own, err := config.Own(); err == nil {
		if c, err := config.Load(own); err == nil {
			add(c)
		}
	}
	return servers
}
