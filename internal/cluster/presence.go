package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/mod/semver"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
)

// service is the name of the NATS service that each router is an instance of: 'nats micro ls' shows
// the routers.
const service = "metarouter"

// A presence is how a router can be reached over one connection to NATS.
type presence struct {
	conn     *nats.Conn
	endpoint *stream.Endpoint
	service  micro.Service      // nil if the node only observes
	inbox    string             // answers to pings come to this subject and a token
	answers  *nats.Subscription // to pings; nil before
	end      context.CancelFunc
	ended    chan struct{} // closed when no stream is accepted or served any more
}

// appear makes the router reachable over a connection until ctx ends. p is nil with an error.
func (m *member) appear(ctx context.Context, conn *nats.Conn) (_ *presence, err error) {
	p := &presence{conn: conn, inbox: conn.NewInbox() + ".", ended: make(chan struct{})}
	ctx, p.end = context.WithCancel(ctx)
	p.endpoint, err = stream.Listen(stream.Options{
		Conn: conn, Prefix: "metarouter." + m.config.Name + ".stream", Key: m.key, Signer: m.identity.Signer(), Trusted: m.trusts, Admit: m.admit,
		Log: m.log,
	})
	if err != nil {
		p.end()
		return nil, err
	}
	go m.accept(ctx, p) // close waits for it
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	own := p.endpoint.Address()
	if p.answers, err = conn.Subscribe(p.inbox+"*", p.answered(m)); err != nil {
		return nil, err
	}
	if m.node.options.Host == nil { // it only observes
		return p, nil
	}
	p.service, err = micro.AddService(conn, micro.Config{
		Name: service, Version: semantic(m.node.options.Version), Description: "shares MCP servers with other nodes of its cluster",
		Metadata: map[string]string{"cluster": m.config.Name, "node": m.name, "key": own.Key, "router": own.Router, "version": m.node.options.Version},
	})
	if err != nil {
		return nil, err
	}
	m.directory.Introduce(own.Router, p.service.Info().ID)
	return p, nil
}

// semantic returns the version as a NATS service may have it: 0.0.0 if it is no semantic version.
func semantic(version string) string {
	version = semver.Canonical("v" + strings.TrimPrefix(version, "v"))
	return cmp.Or(strings.TrimPrefix(version, "v"), "0.0.0")
}

// close makes the router unreachable, and waits until no other node is served. A nil presence is unreachable.
func (p *presence) close() {
	if p == nil {
		return
	}
	p.end()
	p.endpoint.Close()
	<-p.ended
	_ = p.answers.Unsubscribe() // fails for a closed connection only, or without a subscription
	if p.service != nil {
		_ = p.service.Stop() // likewise
	}
}

// answered returns the handler of answers to pings.
func (p *presence) answered(m *member) nats.MsgHandler {
	return func(msg *nats.Msg) {
		token := strings.TrimPrefix(msg.Subject, p.inbox)
		var ping micro.Ping
		switch {
		case msg.Header.Get("Status") == "503": // no responders
			m.roster.Answered(token, false)
		case len(msg.Data) == 0, json.Unmarshal(msg.Data, &ping) == nil && ping.Metadata["cluster"] == m.config.Name:
			m.roster.Answered(token, true)
		}
	}
}

// ping sends a ping to an instance of the service, or to this router for "". It reports false
// without a connection.
func (m *member) ping(instance, token string) bool {
	p := m.present.Load()
	if p == nil || !m.link.Up() {
		return false
	}
	if instance == "" {
		return p.conn.Publish(p.inbox+token, nil) == nil
	}
	subject, err := micro.ControlSubject(micro.PingVerb, service, instance)
	return err == nil && p.conn.PublishRequest(subject, p.inbox+token, nil) == nil
}
