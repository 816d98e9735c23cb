package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// probeTimeout is how long a server of unknown era may take to answer
// server/discover before it is sent initialize as well. Too short, it races
// the slow start of a package runner and mixes the eras.
const probeTimeout = 10 * time.Second

// errProbeExit is returned by handshake where the server went away at the first
// message, as some do that know only initialize.
var errProbeExit = errors.New("the server ended at server/discover")

// An era is what is known of the protocol that a server speaks.
type era string

const (
	unknownEra era = ""
	legacyEra  era = "legacy"
	modernEra  era = "modern"
)

// A greeting is what a server is told of its client when the session begins.
type greeting struct {
	known        era             // "" if it has to be found out
	version      string          // of the router
	capabilities json.RawMessage // of the client
}

// offered are the capabilities that a session has which is not one client's: all
// that any client may have, so that servers offer all that they can.
var offered = json.RawMessage(`{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},` +
	`"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`)

// handshake opens the session and sets the peer's info. "Any other error or
// time-out" than a discover result means legacy (2026-07-28,
// transports/stdio#backward-compatibility), and a result that comes late still
// counts.
func (p *peer) handshake(ctx context.Context, g greeting) error {
	client := wire.Marshal(map[string]string{"name": "metarouter", "version": g.version})
	meta := wire.Marshal(map[string]any{
		metaVersion: session.Modern, metaCapabilities: struct{}{}, metaClient: json.RawMessage(client),
	})
	var discovered, initialized chan reply
	var patience <-chan time.Time
	probing, revision := g.known != legacyEra, session.LatestLegacy
	repeated := false // the probe, since "clients retry with one of supported"
	probe := session.Request{Method: discover, Params: withMeta(nil, meta)}
	if probing {
		r, err := p.begin(ctx, probe)
		if err != nil {
			return err
		}
		defer p.end(r)
		timer := time.NewTimer(probeTimeout)
		defer timer.Stop()
		discovered, patience = r.answer, timer.C
	}
	for {
		if !probing && initialized == nil {
			r, err := p.begin(ctx, session.Request{Method: initialize, Params: fmt.Appendf(nil,
				`{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, revision, g.capabilities, client)})
			if err != nil {
				return err
			}
			defer p.end(r)
			initialized = r.answer
		}
		select {
		case r := <-discovered:
			if info, ok := p.discovered(r); ok {
				p.info, p.meta = info, meta
				return nil
			}
			_, err := r.result()
			if isSelf(err) || r.err != nil {
				return err
			}
			versions := supported(err)
			if probing && !repeated && slices.Contains(versions, session.Modern) {
				repeated = true
				r, err := p.begin(ctx, probe)
				if err != nil {
					return err
				}
				defer p.end(r)
				discovered = r.answer
				continue
			}
			probing, revision = false, newestLegacy(versions)
		case <-patience:
			probing = false
		case r := <-initialized:
			return p.initialized(ctx, r)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.closed:
			if probing {
				return fmt.Errorf("%w: %w", errProbeExit, p.cause)
			}
			return p.cause
		}
	}
}

// supported returns the revisions that a server supports which has refused ours.
func supported(err error) (versions []string) {
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == codeUnsupportedVersion {
		json.Unmarshal(wire.Member(e.Data, "supported"), &versions)
	}
	return versions
}

// newestLegacy returns the newest of the versions that opens with initialize and
// that we know, our own choice if there is none.
func newestLegacy(versions []string) string {
	versions = slices.DeleteFunc(versions, func(v string) bool { return v < session.Oldest || v > session.LatestLegacy })
	if len(versions) == 0 {
		return session.LatestLegacy
	}
	return slices.Max(versions)
}

// discovered returns what a modern server says of itself, false if the answer
// does not come from one that speaks our modern revision.
func (p *peer) discovered(answer reply) (session.Info, bool) {
	m := answer.message
	var r struct {
		SupportedVersions []string
		Capabilities      json.RawMessage
		Instructions      string
		Meta              struct {
			ServerInfo implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if answer.err != nil || m.Error != nil || json.Unmarshal(m.Result, &r) != nil || !slices.Contains(r.SupportedVersions, session.Modern) {
		return session.Info{}, false
	}
	p.bothEras = slices.ContainsFunc(r.SupportedVersions, func(v string) bool { return v >= session.Oldest && v <= session.LatestLegacy })
	return r.Meta.ServerInfo.info(session.Modern, r.Instructions, r.Capabilities), true
}

type implementation struct{ Name, Version, Title string }

func (i implementation) info(revision, instructions string, capabilities json.RawMessage) session.Info {
	return session.Info{
		ProtocolVersion: revision, Name: i.Name, Version: i.Version, Title: i.Title,
		Instructions: instructions, Capabilities: capabilities,
	}
}

// initialized ends the legacy handshake with the answer to initialize.
func (p *peer) initialized(ctx context.Context, answer reply) error {
	raw, err := answer.result()
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var r struct {
		ProtocolVersion string
		Capabilities    json.RawMessage
		ServerInfo      implementation
		Instructions    string
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("initialize: unusable result: %w", err)
	}
	if r.ProtocolVersion < session.Oldest || r.ProtocolVersion >= session.Modern {
		return &versionError{r.ProtocolVersion}
	}
	p.info = r.ServerInfo.info(r.ProtocolVersion, r.Instructions, r.Capabilities)
	return p.Notify(ctx, initialized, nil)
}
