package fakeserver

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// A task is a call that continues after its answer, as in the tasks extension.
type task struct {
	status string
	polls  int
}

func (s *server) hasTask() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(t tool) bool { return t.name == "task" })
}

// knowsTasks reports whether the client declares the extension in this request.
func (c *call) knowsTasks() bool {
	var declared struct{ Extensions map[string]json.RawMessage }
	json.Unmarshal(c.meta[protocol.KeyCapabilities], &declared)
	return c.modern && declared.Extensions[protocol.KeyTasks] != nil
}

// runTask answers like any tool if the client does not know tasks.
func runTask(c *call) (string, *rpcError) {
	if !c.knowsTasks() {
		return text("done at once"), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprintf("task-%d", len(c.tasks)+1)
	c.tasks[id] = &task{status: "working"}
	return `{"resultType":"task",` + c.tasks[id].members(id) + `}`, nil
}

func (t *task) members(id string) string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z",`+
		`"ttlMs":60000,"pollIntervalMs":50`, id, t.status)
}

// answerTask answers tasks/get, tasks/update and tasks/cancel. The second tasks/get finds
// the task completed.
func answerTask(c *call) (string, *rpcError) {
	if !c.knowsTasks() {
		return "", missing(`{"extensions":{"` + protocol.KeyTasks + `":{}}}`)
	}
	var p struct{ TaskID string }
	json.Unmarshal(c.message.Params, &p)
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tasks[p.TaskID]
	if !ok {
		return "", newError(-32602, "Unknown task: "+p.TaskID)
	}
	switch {
	case c.message.Method == "tasks/update":
		return `{}`, nil
	case c.message.Method == "tasks/cancel":
		if t.status == "working" {
			t.status = "cancelled"
		}
		return `{}`, nil
	case t.status == "working":
		if t.polls++; t.polls == 2 {
			t.status = "completed"
		}
	}
	if t.status != "completed" {
		return "{" + t.members(p.TaskID) + "}", nil
	}
	return "{" + t.members(p.TaskID) + `,"result":` + text("done as a task") + "}", nil
}
