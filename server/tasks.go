package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
		return nil, errNoTask
	}
	if c.principal != "" {
		proof, rest, _ := strings.Cut(theirs, taskSeparator)
		if !hmac.Equal([]byte(proof), []byte(c.taskProof(server, rest))) {
			return nil, errNoTask
		}
		theirs = rest
	}
	result, err := c.relay(ctx, server, wire.SetMember(c.bare(), "taskId", wire.AppendString(nil, theirs)))
	return c.ownTask(server, result), err
}

var errNoTask = invalidParams("there is no such task")

// taskProof stands in the id of a task that is the principal's alone: to its
// server, all clients are one. It holds until the router ends.
func (r *request) taskProof(server, id string) string {
	mac := hmac.New(sha256.New, r.server.secret)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", r.principal, server, id)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// ownTask returns the result with the server before the id of the task in it, if
// it is a task.
func (r *request) ownTask(server string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"taskId"`)) {
		return result
	}
	id, ok := wire.String(wire.Member(result, "taskId"))
	if !ok {
		return result
	}
	if r.principal != "" {
		id = r.taskProof(server, id) + taskSeparator + id
	}
	return wire.SetMember(result, "taskId", wire.AppendString(nil, url.PathEscape(server)+taskSeparator+id))
}
