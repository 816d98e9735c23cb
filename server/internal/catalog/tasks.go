package catalog

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// taskSeparator stands between the parts of a task's id.
const taskSeparator = "/"

// Tasks makes the ids under which clients see the tasks of servers:
//
//	server/id          for a client that proved no identity
//	server/proof/id    for a principal
//
// To its server all clients are one, so the proof keeps a principal's task from
// all others. It is valid until the router ends.
type Tasks struct {
	secret []byte
}

// NewTasks returns the ids that only the holder of the secret can make.
func NewTasks(secret []byte) Tasks { return Tasks{secret} }

// Expose returns a result of the server with the id of the task in it as the
// principal sees it, if the result is a task.
func (t Tasks) Expose(principal, server string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"taskId"`)) {
		return result
	}
	id, ok := wire.String(wire.Member(result, "taskId"))
	if !ok {
		return result
	}
	if principal != "" {
		id = t.proof(principal, server, id) + taskSeparator + id
	}
	return wire.SetMember(result, "taskId", wire.AppendString(nil, url.PathEscape(server)+taskSeparator+id))
}

// Resolve returns the server of a task and the id by which the server knows it. It
// reports false if the principal has no task of that id.
func (t Tasks) Resolve(principal, exposed string) (server, id string, ok bool) {
	server, id, ok = strings.Cut(exposed, taskSeparator)
	server, err := url.PathUnescape(server)
	if !ok || err != nil {
		return "", "", false
	}
	if principal == "" {
		return server, id, true
	}
	proof, id, _ := strings.Cut(id, taskSeparator)
	return server, id, hmac.Equal([]byte(proof), []byte(t.proof(principal, server, id)))
}

func (t Tasks) proof(principal, server, id string) string {
	mac := hmac.New(sha256.New, t.secret)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", principal, server, id)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
