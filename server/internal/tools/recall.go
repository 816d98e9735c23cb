package tools

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// The router learns from calls of tools that were found for a task a short time before.
const (
	recallTime  = 10 * time.Minute
	maxRecalled = 8 // findings of one client

	maxRecalledTask = 4 << 10 // bytes of a task
	maxClients      = 1000    // whose findings are remembered
)

// A memory holds the findings of clients.
type memory struct {
	mu      sync.Mutex        // guards clients
	clients map[any][]finding // the latest last
}

// A finding is the tools that were found for a task.
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
	task = strings.Clone(task[:min(len(task), maxRecalledTask)]) // a copy, so that the request can be collected
	all := append(m.clients[client], finding{task, tools, now})
	m.clients[client] = all[max(0, len(all)-maxRecalled):]
}

// recall returns the task for which the client has last found the tool, "" if it has
// not found it lately.
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

// forget drops the findings of the client.
func (m *memory) forget(client any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, client)
}
