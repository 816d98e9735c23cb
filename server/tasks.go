package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// tasksExtension is that of 2026-07-28: a call may be answered with a task, which
// the client then asks for.
const tasksExtension = "io.modelcontextprotocol/tasks"

// A task's id is preceded by its server, so that the client's next request finds
// the way.
const taskSeparator = "/"

// relayTask asks the server that runs the task.
func relayTask(ctx context.Context, c *call) (json.RawMessage, error) {
	id, err := c.text("taskId")
	if err != nil {
		return nil, err
	}
	server, theirs, ok := strings.Cut(id, taskSeparator)
	if server, err = url.PathUnescape(server); !ok || err != nil {
		return nil, invalidParams("unknown task " + id)
	}
	result, err := c.relay(ctx, server, wire.SetMember(c.bare(), "taskId", wire.AppendString(nil, theirs)))
	return ownTask(server, result), err
}

// ownTask returns the result with the server before the id of the task in it, if
// it is a task.
func ownTask(server string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"taskId"`)) {
		return result
	}
	id, ok := wire.String(wire.Member(result, "taskId"))
	if !ok {
		return result
	}
	return wire.SetMember(result, "taskId", wire.AppendString(nil, url.PathEscape(server)+taskSeparator+id))
}
