package edit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

const (
	// dialogTime is how long the keyring may take while a person is at the terminal: it may
	// ask for its password. scriptTime is the same where no person is.
	dialogTime = time.Minute
	scriptTime = 10 * time.Second
)

// SetSecret stores a secret, which it asks for or reads from stdin. If from names a server, it moves the
// value out of the server's entry, and writes a reference to the secret there. user says that it is the value of the local user.
func SetSecret(ctx context.Context, files *configfile.Source, name, from string, user bool) error {
	out := files.Console
	if !vault.ValidName(name) {
		return console.Usage(fmt.Errorf("%q can't be the name of a secret; use up to 128 letters, digits, dots, dashes and underscores", name))
	}
	v, err := vault.Own()
	if err != nil {
		return err
	}
	kind, stored, places := reference.Keyring, name, `"env", "headers" or "args"`
	if user {
		kind, stored, places = reference.User, vault.UserValue("", name), `"headers"`
	}
	var value string
	if from == "" {
		if value, err = read(ctx, out, name); err == nil {
			err = store(ctx, files, v, stored, value, true)
		}
	} else {
		e := &Editor{Source: files, Write: true}
		err = Server(e, from, func(path string, data []byte, server string) (text []byte, err error) {
			if text, value, err = clients.MoveSecret(path, data, server, name); err == nil {
				err = store(ctx, files, v, name, value, false) // before it leaves the file
			}
			return text, err
		})
	}
	if err != nil {
		return err
	}
	servers := referringTo(files, kind, name)
	for _, server := range servers {
		out.Note("note: %s gets it at its next start: metarouter restart %s", server, commandline.Quote(server))
	}
	if len(servers) == 0 {
		out.Note("note: no server uses it yet; write ${%s:%s} in place of the value in %s of an entry", kind, name, places)
	}
	paths, _, _ := configpath.Find(files.Paths)
	own, _ := configpath.Own()
	if p, err := clients.ThisSystem(); err == nil {
		for _, path := range clients.Holding(p, append(paths, own, filepath.Join(filepath.Dir(own), replacedFile)), value) {
			what := "take it out of this file, too"
			if strings.Contains(path, clients.BackupMark) {
				what = "delete this copy"
			}
			out.Note("note: the value is still in clear text in %s; %s", path, what)
		}
	}
	return nil
}

// store keeps the value of a secret. Another value that is stored goes only if replace says so: it may be another server's.
func store(ctx context.Context, files *configfile.Source, v *vault.Vault, name, value string, replace bool) error {
	out, patience := files.Console, scriptTime
	if out.CanAsk() {
		patience = dialogTime
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if old, err := v.Get(bounded, name); !replace && err == nil && old != value {
		return console.Usage(fmt.Errorf("the secret %s is stored already, with another value; run 'metarouter secret set NAME' with another name and write ${keyring:NAME} in place of this value, or remove the stored one first: metarouter secret rm %[1]s", name))
	}
	keptInFile, err := v.Set(bounded, name, value)
	if err != nil {
		return err
	}
	out.Say("The secret %s is set.", name)
	files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: name, Reason: "set"})
	if keptInFile {
		out.Note("note: there is no keyring here, so the key of the secrets is in %s, which only you can read", v.KeyFile())
	}
	return nil
}

// read reads a value from the terminal without showing it, or from stdin.
func read(ctx context.Context, out *console.Console, name string) (string, error) {
	if out.CanAsk() {
		return out.ReadHidden(ctx, fmt.Sprintf("Value of %s (it is not shown): ", name))
	}
	data, err := io.ReadAll(io.LimitReader(out.In, vault.MaxValue+3)) // the vault refuses a longer value
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

// ListSecrets prints the names of the secrets and the servers that use them.
func ListSecrets(files *configfile.Source) error {
	out := files.Console
	v, err := vault.Own()
	if err != nil {
		return err
	}
	names, err := v.Names()
	if err != nil {
		return err
	}
	all := []storedSecret{}
	for _, name := range names {
		all = append(all, storedSecret{name, append([]string{}, referringTo(files, reference.Keyring, name)...)})
	}
	if out.JSON {
		return out.PrintJSON(all)
	}
	if len(all) == 0 {
		out.Note("no secret is stored; to store one: metarouter secret set NAME")
		return nil
	}
	rows := []console.Row{console.Texts("NAME", "SERVERS")}
	for _, s := range all {
		rows = append(rows, console.Texts(s.Name, cmp.Or(strings.Join(s.Servers, ", "), "-")))
	}
	return out.PrintRows(rows, nil)
}

// RemoveSecret removes a stored secret.
func RemoveSecret(ctx context.Context, files *configfile.Source, name string) error {
	out := files.Console
	v, err := vault.Own()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, dialogTime)
	defer cancel()
	err = v.Remove(bounded, name)
	if _, missing := errors.AsType[*vault.MissingError](err); missing {
		return fmt.Errorf("no secret is named %q; 'metarouter secret list' names those that are stored", name)
	} else if err != nil {
		return err
	}
	out.Say("The secret %s is removed.", name)
	files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: name, Reason: "removed"})
	for _, server := range referringTo(files, reference.Keyring, name) {
		out.Note("note: %s refers to it and does not start without it; edit its entry, or set the secret again", server)
	}
	return nil
}

// referringTo returns the servers that refer to a stored secret: of the configuration in
// use, and of the user's own. A configuration that can't be used counts as empty.
func referringTo(files *configfile.Source, kind reference.Kind, name string) (servers []string) {
	add := func(c config.Config) {
		for _, s := range c.Servers {
			if slices.ContainsFunc(s.References, func(r reference.Reference) bool { return r.Kind == kind && r.Body == name }) && !slices.Contains(servers, s.Name) {
				servers = append(servers, s.Name)
			}
		}
	}
	if c, ok := files.Usable(); ok {
		add(c)
	}
	if own, err := configpath.Own(); err == nil {
		if c, err := config.Load(own); err == nil {
			add(c)
		}
	}
	return servers
}

// tokenPrefix begins the tokens that we make, so that scanners for secrets find them.
const tokenPrefix = "mr_"

// A TokenEntry is a token as an element of "tokens" in a configuration.
type TokenEntry struct {
	Token   string `json:"token"`
	Name    string `json:"name,omitempty"`
	Profile string `json:"profile,omitempty"`
	Role    string `json:"role,omitempty"`
}

// A madeToken is the answer of the command with --json.
type madeToken struct {
	Token string     `json:"token"`
	Entry TokenEntry `json:"entry"`
}

// NewToken prints a new token, and the entry with its hash.
func NewToken(files *configfile.Source, entry TokenEntry) error {
	out := files.Console
	if err := entry.check(); err != nil {
		return console.Usage(err)
	}
	bits := make([]byte, 32)
	rand.Read(bits)
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(bits)
	hash, _, _ := secret.ParseToken(token)
	entry.Token = secret.HashPrefix + hash
	files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: cmp.Or(entry.Name, hash[:8]), Reason: "a token was made; its hash begins with " + hash[:8]})
	if out.JSON {
		return out.PrintJSON(madeToken{token, entry})
	}
	line, _ := json.Marshal(entry) // strings
	out.Say("%s", token)
	out.Say("%s", line)
	out.Note(`note: the token is shown only now; write the second line into "tokens" of "http" in "metarouter" of the configuration`)
	return nil
}

// check says which flag can't be used, and the fix.
func (e TokenEntry) check() error {
	for _, flag := range [][2]string{{"name", e.Name}, {"profile", e.Profile}, {"role", e.Role}} {
		if err := config.Check("metarouter.http.tokens."+flag[0], flag[1]); err != nil && flag[1] != "" {
			return fmt.Errorf("--%s %q %w", flag[0], flag[1], err)
		}
	}
	return nil
}
