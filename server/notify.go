package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// gatherTime is how long changes are gathered before clients are notified, and
	// notifyEvery the least time between two notifications.
	gatherTime  = 100 * time.Millisecond
	notifyEvery = 500 * time.Millisecond

	// sameEvery is how often clients are notified of a list that is the same, and sameBurst how often at once.
	sameEvery = time.Minute
	sameBurst = 4 // not 0: the conformance suite (SEP-2575) announces a list that is the same, and wants its client to hear it
)

// changes are the notifications that a list has changed, each with the member by which a modern client asks for it.
var changes = map[string]string{
	"notifications/tools/list_changed":     "toolsListChanged",
	"notifications/prompts/list_changed":   "promptsListChanged",
	"notifications/resources/list_changed": "resourcesListChanged",
}

// A notifier notifies clients of events that belong to no request: changes of lists and
// resources, and log messages of servers.
type notifier struct {
	router        Router
	catalog       *catalog.Catalog
	clients       *conversation.Clients
	subscriptions *subscriptions
	touches       chan struct{} // holds a signal when the lists were touched, or the first client has come
	display       *display
	others        func() bool // reports whether another server of the router has clients

	mu      sync.Mutex      // guards the fields below
	base    *displayed      // what the first client found; may be nil
	touched map[string]bool // lists to notify of even if they are the same, by member of changes: always, or only each sameEvery
	same    *rate.Limiter   // of notifications of a list that is the same, by member
}

// joined notes that a client has come that is to be notified of changes. Lists that it gets
// are not older than the catalog and the options of this moment.
func (n *notifier) joined() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.base == nil {
		n.base = n.display.current()
		signal.Leave(n.touches)
	}
}

// baseline returns what the first client found, or nil if no client is to be notified:
// then views are made for requests alone.
func (n *notifier) baseline() *displayed {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.clients.Any() && !n.subscriptions.any() {
		n.base = nil
		clear(n.touched)
	}
	return n.base
}

// run notifies clients of changes, until ctx ends. It must run while clients are served. Many changes at once are one
// notification.
func (n *notifier) run(ctx context.Context) {
	defer n.router.Listen(n.pass)()
	defer close(n.subscriptions.ending)
	var last *catalog.View // as the clients know it; may be nil
	warned := false
	for {
		changed := n.router.Changed()
		_, redisplayed := n.display.live()
		base := n.baseline()
		switch {
		case base == nil:
			last = nil
			if len(n.clients.Infos()) == 0 {
				n.catalog.Forget()
			}
		case last == nil:
			last = n.catalog.Of(base.snapshot, base.catalog)
		}
		if last == nil {
			// no client is to be notified
		} else if now := n.catalog.View(); n.notify(last, now) {
			last = now
			warned = warned || n.display.warnOfBudget()
			if signal.Within(ctx.Done(), notifyEvery) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-redisplayed:
		case <-n.touches:
		case <-ctx.Done():
			return
		}
		if signal.Within(ctx.Done(), gatherTime) {
			return
		}
	}
}

// notify notifies the clients of lists that differ or were touched, and reports
// whether there are any.
func (n *notifier) notify(last, now *catalog.View) (any bool) {
	differ := map[string]bool{
		"toolsListChanged":     !now.AppTools.Equal(last.AppTools),
		"promptsListChanged":   !now.PromptList.Equal(last.PromptList),
		"resourcesListChanged": !now.Resources.Equal(last.Resources) || !now.Templates.Equal(last.Templates) || !now.Skills.Equal(last.Skills), // the extension has no notification of its own
	}
	n.mu.Lock()
	for member, always := range n.touched {
		differ[member] = differ[member] || always || n.same.Take(member, 1, 1) == 0
	}
	clear(n.touched)
	n.mu.Unlock()
	for notification, member := range changes {
		if !differ[member] {
			continue
		}
		any = true
		m := session.Message{Method: notification}
		for _, c := range n.clients.All() {
			c.Notify("", m)
		}
		n.subscriptions.changed(member, m)
	}
	return any
}

// pass passes on a message of a server that belongs to no request. It runs on the
// goroutine that reads from the server.
func (n *notifier) pass(server string, owner session.Client, m session.Message) {
	if m.Method == "notifications/resources/updated" {
		n.subscriptions.updated(server, owner, m)
		return
	}
	if owner != nil {
		for _, c := range n.clients.All() {
			if session.Owns(owner, c) {
				c.Notify(server, m)
			}
		}
		return
	}
	if member := changes[m.Method]; member != "" {
		if n.display.options().Rules == nil { // else it may be about a list that the clients may not see
			n.touch(member, false)
		}
		return
	}
	clients := n.clients.All()
	isOther := func(c *conversation.Conversation) bool { return c.Principal != clients[0].Principal }
	if slices.ContainsFunc(clients, isOther) || n.others() {
		return // it may be about an action of one of them, which the others must not know
	}
	for _, c := range clients {
		c.Notify(server, m)
	}
}

// touch has clients notified that a list has changed, even if it has not: its server
// says so. Without always, they hear less and less of a list that is the same: some servers say so without end.
func (n *notifier) touch(member string, always bool) {
	n.mu.Lock()
	n.touched[member] = n.touched[member] || always
	n.mu.Unlock()
	signal.Leave(n.touches)
}

// touchAll touches all lists: nothing has notified the clients of changes meanwhile.
func (n *notifier) touchAll() {
	for _, member := range changes {
		n.touch(member, true)
	}
}
