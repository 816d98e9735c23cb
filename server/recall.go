package server

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// What was found for which task is remembered for a while, so that the router
// learns from what is called then.
const (
	recallTime  = 10 * time.Minute
	maxRecalled = 8 // findings of one client

	maxRecalledTask = 4 << 10 // bytes of a task
	maxClients      = 1000    // whose findings are remembered
)

// A memory holds what clients have found.
type memory struct {
	mu      sync.Mutex
	clients map[any][]finding // the latest last
}

// A finding is what was found for a task.
type finding struct {
	task  string
	tools []string // their IDs
	at    time.Time
}

// note remembers a finding of the client.
func (m *memory) note(client any, task string, tools []string) {
	if task == "" || len(tools) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.clients == nil {
		m.clients = make(map[any][]finding)
	}
	if len(m.clients) >= maxClients {
		for other, all := range m.clients {
			if now.Sub(all[len(all)-1].at) > recallTime || len(m.clients) >= maxClients {
				delete(m.clients, other)
			}
		}
	}
	task = strings.Clone(task[:min(len(task), maxRecalledTask)]) // without the request around it
	all := append(m.clients[client], finding{task, tools, now})
	m.clients[client] = all[max(0, len(all)-maxRecalled):]
}

// recall returns the task for which the client has last found the tool, "" if it
// has not lately.
func (m *memory) recall(client any, tool string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range slices.Backward(m.clients[client]) {
		if time.Since(f.at) <= recallTime && slices.Contains(f.tools, tool) {
			return f.task
		}
	}
	return ""
}

// forget drops what the client has found.
func (m *memory) forget(client any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, client)
}

// finder is by what a client is remembered: its session, or else who it is.
func (r *request) finder() any {
	if r.visitor {
		return r.principal
	}
	return r.conversation
}

// learn has the router learn from a call of the tool, if it was found for a task
// before. All that have not proved who they are count as one client.
func (r *request) learn(tool *registry.NormalizedTool, result []byte, err error) {
	if r.ctx.Err() != nil {
		return
	}
	if task := r.server.memory.recall(r.finder(), tool.ID); task != "" {
		failed := err != nil || string(wire.Member(result, "isError")) == "true"
		r.server.router.Learn(r.principal, task, tool.ID, failed)
	}
}
