package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An encoded is the choice of clients, as another node gets it.
type encoded struct {
	Chosen   []string                  `json:"chosen"`
	Profiles map[string]encodedProfile `json:"profiles,omitempty"`
}

// An encodedProfile has the limits of a profile. The questions and the fixed arguments are not in it:
// the node of the client that calls has asked and has fixed them before another node gets the call.
//
// A member that is not set is left out, so that a later member is seen by older nodes only where
// it limits something; they refuse members that they can't read.
type encodedProfile struct {
	Servers     []string `json:"servers,omitzero"` // [] is no server, and nil is all
	Allow       []string `json:"allow,omitempty"`
	Deny        []string `json:"deny,omitempty"`
	ReadOnly    bool     `json:"readOnly,omitempty"`
	SkillsAllow []string `json:"skillsAllow,omitempty"`
	SkillsDeny  []string `json:"skillsDeny,omitempty"`
}

// MaxEncoded is the most bytes of encoded rules that [Decode] reads.
const MaxEncoded = 128 << 10

// Encode returns the rights of clients with these choices, for [Decode] on another node.
func Encode(all map[string]config.Profile, chosen ...string) json.RawMessage {
	e := encoded{Chosen: Applying(all, chosen), Profiles: make(map[string]encodedProfile)}
	for name, p := range Existing(all, chosen) {
		e.Profiles[name] = encodedProfile{p.Servers, p.Allow, p.Deny, p.ReadOnly, p.SkillsAllow, p.SkillsDeny}
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and a bool
	}
	return text
}

// Decode returns the rules that another node has encoded. It fails for a member that it does not
// know, since that may be a limit.
func Decode(text json.RawMessage) (*Rules, error) {
	if len(text) > MaxEncoded {
		return nil, fmt.Errorf("the profile has %d bytes, and at most %d are read", len(text), MaxEncoded)
	}
	var e encoded
	if !wire.Valid(text) {
		return nil, errors.New("read the profile: it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	if len(e.Chosen) == 0 {
		return nil, errors.New("read the profile: it names none")
	}
	all := make(map[string]config.Profile, len(e.Profiles))
	for name, p := range e.Profiles {
		all[name] = config.Profile{Servers: p.Servers, Allow: p.Allow, Deny: p.Deny, ReadOnly: p.ReadOnly, SkillsAllow: p.SkillsAllow, SkillsDeny: p.SkillsDeny}
	}
	return Of(all, e.Chosen...), nil
}
