package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A spec says which server of another node a name stands for, and how it is called. Specs can be compared.
type spec struct {
	router stream.Address
	node   string // its name
	directory.Server
}

// entry returns the entry of the server for the handler.
func (s spec) entry(name string) config.Server {
	return config.Server{
		Name: name, Transport: status.ByCluster, Service: s.Service, Timeout: s.Terms.Timeout, MaxConcurrent: s.Terms.MaxConcurrent,
		Validate: s.Terms.Validate, Retry: s.Terms.Retry,
	}
}

// A remote is a server of another node that this router uses. The mutex of its member guards it.
type remote struct {
	known
	name   string             // here, such as "gpu@box"
	ctx    context.Context    // ends when the server is gone
	end    context.CancelFunc // of ctx
	edited signal.Change      // of spec
}

// known are the facts about a remote.
type known struct {
	spec
	offer   directory.Server // as it was learned; zero before
	info    session.Info     // of offer
	problem string           // why it could not be learned
	since   time.Time        // when it entered its state
}

// learned reports whether some offer of the server is known.
func (k *known) learned() bool { return k.offer.Name != "" }

// A listing is a session that answers the methods that list from definitions.
type listing struct {
	definitions *directory.Definitions
	done        <-chan struct{}
}

// Call implements [session.Session].
func (l listing) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	d := l.definitions
	list, ok := map[string]struct {
		member string
		items  json.RawMessage
	}{
		"tools/list": {"tools", d.Tools}, "prompts/list": {"prompts", d.Prompts}, "resources/list": {"resources", d.Resources},
		"resources/templates/list": {"resourceTemplates", d.Templates}, "skills/list": {"skills", d.Skills},
	}[r.Method]
	if !ok {
		return nil, fmt.Errorf("%w: %s is not answered from announced definitions", session.ErrNotSent, r.Method)
	}
	if list.items == nil {
		list.items = json.RawMessage("[]")
	}
	return json.RawMessage(`{"` + list.member + `":` + string(list.items) + "}"), nil
}

// Subscribe implements [session.Session].
func (l listing) Subscribe(context.Context, string) (func(), error) {
	return nil, fmt.Errorf("%w: announced definitions have no subscriptions", session.ErrNotSent)
}

// Done implements [session.Session].
func (l listing) Done() <-chan struct{} { return l.done }

// Info implements [session.Session].
func (l listing) Info() session.Info { return l.definitions.Info }
