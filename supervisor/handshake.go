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

// handshake opens the session and sets the peer's info. "Any other error or
// time-out" than a discover result means legacy (2026-07-28,
// transports/stdio#backward-compatibility), and a result that comes late still
// counts.
func (p *peer) handshake(ctx context.Context, known era, version string) error {
	client := wire.Marshal(map[string]string{"name": "metarouter", "version": version})
	var discovered, initialized request
	var patience <-chan time.Time
	if known != legacyEra {
		meta := wire.Marshal(map[string]any{
			"io.modelcontextprotocol/protocolVersion":    session.Modern,
			"io.modelcontextprotocol/clientCapabilities": struct{}{},
			"io.modelcontextprotocol/clientInfo":         json.RawMessage(client),
		})
		var err error
		if discovered, err = p.begin(ctx, "server/discover", fmt.Appendf(nil, `{"_meta":%s}`, meta)); err != nil {
			return err
		}
		defer p.end(discovered)
		timer := time.NewTimer(probeTimeout)
		defer timer.Stop()
		patience = timer.C
		p.meta = meta
	}
	for probing := known != legacyEra; ; {
		if !probing && initialized.answer == nil {
			var err error
			if initialized, err = p.begin(ctx, "initialize", fmt.Appendf(nil,
				`{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}`, session.LatestLegacy, client)); err != nil {
				return err
			}
			defer p.end(initialized)
		}
		select {
		case m := <-discovered.answer:
			if info, ok := discoverInfo(m); ok {
				p.info = info
				return nil
			}
			if _, err := result(m); isSelf(err) {
				return err
			}
			probing = false
		case <-patience:
			probing = false
		case m := <-initialized.answer:
			p.meta = nil
			return p.initialized(ctx, m)
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

// discoverInfo returns what a modern server says of itself, false if the answer
// does not come from one that speaks our modern revision.
func discoverInfo(m wire.Message) (session.Info, bool) {
	var r struct {
		SupportedVersions []string
		Capabilities      json.RawMessage
		Instructions      string
		Meta              struct {
			ServerInfo implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || !slices.Contains(r.SupportedVersions, session.Modern) {
		return session.Info{}, false
	}
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
func (p *peer) initialized(ctx context.Context, m wire.Message) error {
	raw, err := result(m)
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
		return fmt.Errorf("initialize: the server speaks protocol %q, which is not one of %s to %s", r.ProtocolVersion, session.Oldest, session.LatestLegacy)
	}
	p.info = r.ServerInfo.info(r.ProtocolVersion, r.Instructions, r.Capabilities)
	return p.Notify(ctx, "notifications/initialized", nil)
}
