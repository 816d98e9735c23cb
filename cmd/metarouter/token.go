package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

// tokenPrefix begins the tokens that we make, so that scanners for secrets find them.
const tokenPrefix = "mr_"

// A tokenEntry is a token as an element of "tokens" in a configuration.
type tokenEntry struct {
	Token   string      `json:"token"`
	Name    string      `json:"name,omitempty"`
	Profile string      `json:"profile,omitempty"`
	Role    config.Role `json:"role,omitempty"`
}

// A madeToken is the answer of the command with --json.
type madeToken struct {
	Token string     `json:"token"`
	Entry tokenEntry `json:"entry"`
}

func newTokenCommand(env *environment) *cobra.Command {
	var entry tokenEntry
	var role string
	create := newCommand("new", "Make a token, and print it with its line for the configuration",
		`  metarouter token new --name ci --profile work
  metarouter token new --name ops --role admin --json`,
		noArguments, func(context.Context, []string) error {
			entry.Role = config.Role(role)
			return newToken(env, entry)
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
	addJSONFlag(env, create)
	cmd := newCommand("token new", "Make tokens for clients over HTTP",
		"  metarouter token new --name ci --profile work",
		func(*cobra.Command, []string) error { return errors.New("the subcommand new is missing") }, nil)
	cmd.Long = create.Long
	cmd.AddCommand(create)
	return cmd
}

// newToken prints a new token, and the entry with its hash.
func newToken(env *environment, entry tokenEntry) error {
	if err := entry.check(); err != nil {
		return exit.Usage(err)
	}
	bits := make([]byte, 32)
	rand.Read(bits)
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(bits)
	hash := config.PlainToken(token).Hash
	entry.Token = config.HashPrefix + hash
	env.files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: cmp.Or(entry.Name, hash[:8]), Reason: "a token was made; its hash begins with " + hash[:8]})
	if env.JSON {
		return env.PrintJSON(madeToken{token, entry})
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	env.Say("%s", token)
	env.Say("%s", line)
	env.Note(`note: the token is shown only now; write the second line into "tokens" of "http" in "metarouter" of the configuration`)
	return nil
}

// check says which flag can't be used, and what to write instead.
func (e tokenEntry) check() error {
	if e.Name != "" {
		if err := config.CheckTokenName(e.Name); err != nil {
			return fmt.Errorf("--name %q %w", e.Name, err)
		}
	}
	if e.Profile != "" {
		if err := config.CheckProfileName(e.Profile); err != nil {
			return fmt.Errorf("--profile %q %w", e.Profile, err)
		}
	}
	if e.Role != "" && e.Role != config.RoleUse && e.Role != config.RoleAdmin {
		return fmt.Errorf(`--role %q must be "use" or "admin"`, e.Role)
	}
	return nil
}
