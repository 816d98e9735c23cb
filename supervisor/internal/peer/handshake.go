package peer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// probeTimeout is how long a server of unknown era may take to answer
// server/discover before it is sent initialize as well. Too short, it races
// the slow start of a package runner and mixes the eras.
const probeTimeout = 10 * time.Second

// ErrProbeExit is returned by Handshake when the server went away at the first
// message, as some do that know only initialize.
var ErrProbeExit = errors.New("the server ended at server/discover")

// CodeUnsupportedVersion is the JSON-RPC error of a modern server that does not
// speak the revision of a request.
const CodeUnsupportedVersion = -32022

// ErrSelf is returned by Handshake when the server is a router that was started by a
// router.
var ErrSelf = errors.New("it would start a router inside the router")

// An Era is the known part of the protocol that a server speaks.
type Era string

// The eras. Legacy servers open a session with initialize, modern ones do not.
const (
	UnknownEra Era = ""
	LegacyEra  Era = "legacy" // alone
	ModernEra  Era = "modern" // alone
	BothEras   Era = "both"
)

// A Greeting is the input of a handshake, with known facts of the server.
type Greeting struct {
	Known        Era             // the server's era; UnknownEra has the handshake probe
	Only         bool            // no other era than Known will do
	Client       string          // the client's name; "" is the router's
	Version      string          // of the router
	Capabilities json.RawMessage // of the client
	PID          int             // of the server's process; 0 if it is remote
}

// Handshake opens the session. It must succeed before the session is used or shared.
// Its error is a [*session.Error] if the server refuses, a [*VersionError] if the
// server speaks another protocol, and wraps [ErrProbeExit] or [ErrSelf].
//
// "Any other error or time-out" than a discover result means legacy (2026-07-28,
// transports/stdio#backward-compatibility), and a result that comes late still
// counts.
func (p *Peer) Handshake(ctx context.Context, g Greeting) (err error) {
	client, meta := identity(cmp.Or(g.Client, "metarouter"), g.Version)
	var begun []*pendingRequest
	defer func() {
		for _, one := range begun {
			p.Calls.remove(one)
		}
	}()
	send := func(method string, params json.RawMessage) chan Reply {
		one, failed := p.begin(ctx, session.Request{Method: method, Params: params})
		if failed != nil {
			err = failed
			return nil
		}
		begun = append(begun, one)
		return one.answer
	}
	var discovered, initialized chan Reply
	var timeout <-chan time.Time
	probing, repeated, revision := g.Known != LegacyEra, false, session.LatestLegacy
	if probing {
		discovered, timeout = send(Discover, withMeta(nil, meta)), g.patience()
	}
	for {
		if !probing && initialized == nil {
			initialized = send(Initialize, fmt.Appendf(nil,
				`{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, revision, p.host.Roots.Shown(g.Capabilities), client))
		}
		if err != nil {
			return err
		}
		select {
		case r := <-discovered:
			if info, bothEras, ok := readDiscovered(r); ok {
				p.agreed = agreement{g.complete(info), meta, bothEras}
				return nil
			}
			versions, err := g.supported(r)
			if err != nil {
				return err
			}
			if probing && !repeated && slices.Contains(versions, session.Modern) { // "clients retry with one of supported"
				repeated, discovered = true, send(Discover, withMeta(nil, meta))
			} else {
				probing, revision = false, newestLegacy(versions)
			}
		case <-timeout:
			probing = false
		case r := <-initialized:
			return p.initialized(ctx, g, r, begun[:len(begun)-1])
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.Done():
			if probing {
				return fmt.Errorf("%w: %w", ErrProbeExit, p.Cause())
			}
			return p.Cause()
		}
	}
}

// patience returns when the answer to a probe is late; nil if only the context says so.
func (g Greeting) patience() <-chan time.Time {
	if g.Only {
		return nil
	}
	return time.After(probeTimeout)
}

// complete adds to info the greeting's facts of the server.
func (g Greeting) complete(info session.Info) session.Info {
	info.PID, info.Remote = g.PID, g.PID == 0
	return info
}

func isSelf(err error) bool {
	e, ok := errors.AsType[*session.Error](err)
	return ok && e.Code == session.CodeSelf && string(wire.Member(e.Data, "metarouter")) == `"self"`
}

// identity returns the client's name and version, and the _meta that its requests to
// modern servers carry.
func identity(name, version string) (client, meta json.RawMessage) {
	client = wire.Marshal(map[string]string{"name": name, "version": version})
	return client, wire.Marshal(map[string]any{
		metaVersion: session.Modern, metaCapabilities: struct{}{}, metaClient: client,
	})
}

// supported returns the revisions that a server names when it refuses ours. An error
// says that the server can't be used in any that will do.
func (g Greeting) supported(refusal Reply) (versions []string, err error) {
	_, err = refusal.Result()
	switch {
	case isSelf(err):
		return nil, ErrSelf
	case g.Only && refusal.Err == nil:
		return nil, fmt.Errorf("server/discover: %w", cmp.Or(err, errors.New("the server does not speak revision "+session.Modern)))
	}
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == CodeUnsupportedVersion {
		json.Unmarshal(wire.Member(e.Data, "supported"), &versions)
	}
	return versions, refusal.Err
}

// newestLegacy returns the newest legacy revision among the versions that we know,
// and our own choice if they have no revision in common.
func newestLegacy(versions []string) string {
	versions = slices.DeleteFunc(versions, func(v string) bool { return v < session.Oldest || v > session.LatestLegacy })
	if len(versions) == 0 {
		return session.LatestLegacy
	}
	return slices.Max(versions)
}

// readDiscovered returns a modern server's description of itself. ok is false if the
// server does not speak our modern revision.
func readDiscovered(answer Reply) (info session.Info, bothEras, ok bool) {
	m := answer.Message
	var r struct {
		SupportedVersions []string
		Capabilities      json.RawMessage
		Instructions      string
		Meta              struct {
			ServerInfo implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if answer.Err != nil || m.Error != nil || json.Unmarshal(m.Result, &r) != nil || !slices.Contains(r.SupportedVersions, session.Modern) {
		return session.Info{}, false, false
	}
	bothEras = slices.ContainsFunc(r.SupportedVersions, func(v string) bool { return v >= session.Oldest && v <= session.LatestLegacy })
	return r.Meta.ServerInfo.info(session.Modern, r.Instructions, r.Capabilities), bothEras, true
}

type implementation struct {
	Name, Version, Title, WebsiteURL string
	Icons                            json.RawMessage
}

// maxSaid bounds the bytes of a server's short texts about itself. Each result of its
// tools has the version.
const maxSaid = 256

func brief(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxSaid)], "") }

func (i implementation) info(revision, instructions string, capabilities json.RawMessage) session.Info {
	return session.Info{
		ProtocolVersion: revision, Name: brief(i.Name), Version: brief(i.Version), Look: i.look(),
		Instructions: instructions, Capabilities: capabilities,
	}
}

// maxIcons bounds the bytes of a server's icons, which may be whole pictures.
const maxIcons = 64 << 10

// look returns how the server wants to be shown. A URL and icons that are too long are left out.
func (i implementation) look() json.RawMessage {
	shown := make(map[string]any)
	if i.Name != "" {
		shown["name"] = plain.Visible(brief(i.Name))
	}
	if i.Title != "" {
		shown["title"] = plain.Visible(brief(i.Title))
	}
	if i.WebsiteURL != "" && len(i.WebsiteURL) <= maxSaid {
		shown["websiteUrl"] = i.WebsiteURL
	}
	if bytes.HasPrefix(i.Icons, []byte("[")) && len(i.Icons) <= maxIcons {
		shown["icons"] = i.Icons
	}
	if len(shown) == 0 {
		return nil
	}
	return wire.Marshal(shown)
}

// initialized ends the legacy handshake with the answer to initialize. The probes before it may have no answer.
func (p *Peer) initialized(ctx context.Context, g Greeting, answer Reply, probes []*pendingRequest) error {
	for _, probe := range probes {
		probe.sent.End()
	}
	raw, err := answer.Result()
	if isSelf(err) {
		return ErrSelf
	}
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var r struct{ ProtocolVersion, Capabilities, ServerInfo, Instructions json.RawMessage }
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("initialize: unusable result: %w", err)
	}
	revision, err := p.revision(r.ProtocolVersion)
	if err != nil {
		return err
	}
	var server implementation
	json.Unmarshal(r.ServerInfo, &server) // a server that says nothing of itself works as well
	instructions, _ := wire.String(r.Instructions)
	p.agreed.info = g.complete(server.info(revision, instructions, r.Capabilities))
	return p.Notify(ctx, Initialized, nil)
}

// revision returns the revision that a legacy server means by its protocolVersion. Those before
// the first one, of which some servers have kept the number, and texts that are no revision, are taken
// as the first.
func (p *Peer) revision(version json.RawMessage) (string, error) {
	v, ok := wire.String(version)
	switch isDate := ok && len(v) == len(session.Oldest) && v[4] == '-' && v[7] == '-'; {
	case isDate && v >= session.Modern:
		return "", &VersionError{brief(v)}
	case isDate && v >= session.Oldest:
		return v, nil
	case version == nil || string(version) == "null":
		p.Budget.Note("names no version of the protocol, which is taken as " + session.Oldest)
	default:
		p.Budget.Note(fmt.Sprintf("names %s as its version of the protocol, which is taken as %s", brief(string(version)), session.Oldest))
	}
	return session.Oldest, nil
}

// A VersionError is a protocol that we do not know.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("initialize: the server speaks protocol %q, which is not one of %s to %s", e.Version, session.Oldest, session.LatestLegacy)
}
