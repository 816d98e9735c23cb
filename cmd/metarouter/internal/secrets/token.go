package secrets

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

// tokenPrefix begins the tokens that we make, so that scanners for secrets find them.
const tokenPrefix = "mr_"

// A TokenEntry is a token as an element of "tokens" in a configuration.
type TokenEntry struct {
	Token   string      `json:"token"`
	Name    string      `json:"name,omitempty"`
	Profile string      `json:"profile,omitempty"`
	Role    config.Role `json:"role,omitempty"`
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
		return exit.Usage(err)
	}
	bits := make([]byte, 32)
	rand.Read(bits)
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(bits)
	hash := config.PlainToken(token).Hash
	entry.Token = config.HashPrefix + hash
	files.Record(audit.Event{Action: audit.Secret, Outcome: audit.OK, Target: cmp.Or(entry.Name, hash[:8]), Reason: "a token was made; its hash begins with " + hash[:8]})
	if out.JSON {
		return out.PrintJSON(madeToken{token, entry})
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	out.Say("%s", token)
	out.Say("%s", line)
	out.Note(`note: the token is shown only now; write the second line into "tokens" of "http" in "metarouter" of the configuration`)
	return nil
}

// check says which flag can't be used, and what to write instead.
func (e TokenEntry) check() error {
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
