package tools

import (
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

// The router learns from calls a short time after a search.
const (
	recallTime  = 10 * time.Minute
	maxRecalled = 8 // findings of one client
	maxServing  = 3 // successful calls after a search that may serve it, if it did not list the tool

	maxRecalledTask = 4 << 10 // bytes of a task
	maxClients      = 1000    // of all servers of the router that have findings
)

// A memory holds the findings of clients, the latest last. Each of its clients has findings.
type memory struct{ *budget.Map[any, []finding] }

func newMemory(b *budget.Budget) *memory { return &memory{budget.NewMap(b, dropOldest)} }

// A finding is the answer to a search.
type finding struct {
	task  string   // "" for a search by capabilities alone, from which nothing is learned
	tools []string // the IDs that it listed, be it as the nearest only
	sure  bool     // of the first one
	at    time.Time

	calls    int      // successful calls since
	served   bool     // one of these was of a tool that it listed
	unlisted []string // called tools that it did not list
}

// note remembers a finding of the client.
func (m *memory) note(client any, f finding) {
	if f.task == "" && len(f.tools) == 0 {
		return
	}
	f.task = strings.Clone(f.task[:min(len(f.task), maxRecalledTask)]) // a copy, so that the request can be collected
	f.at = time.Now()
	m.Do(func(clients map[any][]finding) {
		all := slices.DeleteFunc(clients[client], func(old finding) bool { return old.task == f.task && f.task != "" })
		all = append(all, f)
		clients[client] = all[max(0, len(all)-maxRecalled):]
	})
}

// dropOldest drops the findings of clients that did not search for long, or else the findings of the one
// that did not for the longest.
func dropOldest(clients map[any][]finding) {
	var oldest any
	var since time.Time
	for client, all := range clients {
		last := all[len(all)-1].at
		if since.IsZero() || last.Before(since) {
			oldest, since = client, last
		}
		if time.Since(last) > recallTime {
			delete(clients, client)
		}
	}
	if time.Since(since) <= recallTime {
		delete(clients, oldest)
	}
}

// called returns the lessons of a call of the tool: it was for the task of the last search
// that listed the tool, or for the task of a later search that did not. A failed call teaches
// something of a listed tool only.
func (m *memory) called(client any, tool string, failed bool) (lessons []selector.Use) {
	m.Do(func(clients map[any][]finding) { lessons = lessonsOf(clients[client], tool, failed) })
	return lessons
}

func lessonsOf(all []finding, tool string, failed bool) (lessons []selector.Use) {
	for len(all) > 0 && time.Since(all[0].at) > recallTime {
		all = all[1:]
	}
	listed := len(all) - 1
	for listed >= 0 && !slices.Contains(all[listed].tools, tool) {
		listed--
	}
	later := all[listed+1:]
	if !failed {
		explained := listed >= 0 && !all[listed].served && len(all[listed].unlisted) == 0
		lessons = unlisted(later, tool, explained)
	}
	if listed >= 0 && (len(later) == 0 || len(lessons) == 0 || !lessons[0].First) {
		lessons = append(lessons, all[listed].listed(tool, failed)...)
	}
	if !failed {
		for i := range all {
			all[i].calls++
		}
	}
	return lessons
}

// unlisted returns the lessons of a successful call about searches that did not list the tool,
// the latest first. explained says that an earlier search, which no call has served yet,
// listed it.
func unlisted(later []finding, tool string, explained bool) (lessons []selector.Use) {
	for i := len(later) - 1; i >= 0; i-- {
		f := &later[i]
		if f.task == "" || f.served || f.calls >= maxServing {
			continue
		}
		first := !explained && !f.sure && f.calls == 0 && i == len(later)-1
		lessons = append(lessons, selector.Use{Task: f.task, Tool: tool, Unlisted: true, First: first})
		f.unlisted = append(f.unlisted, tool)
	}
	return lessons
}

// listed returns the lessons of a call about the search that listed the tool. If it succeeded,
// earlier calls of tools that the search did not list were for something else.
func (f *finding) listed(tool string, failed bool) (lessons []selector.Use) {
	if f.task == "" {
		return nil
	}
	if !failed {
		for _, other := range f.unlisted {
			lessons = append(lessons, selector.Use{Task: f.task, Tool: other, Withdrawn: true})
		}
		f.served, f.unlisted = true, nil
	}
	return append(lessons, selector.Use{Task: f.task, Tool: tool, Failed: failed, Unsure: !f.sure && !failed})
}
