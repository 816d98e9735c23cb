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
//	server:tool/id          for a client that proved no identity
//	server:tool/proof/id    for a principal
//
// The tool is the one that began the task, and which its client must still be allowed to use. To
// its server all clients are one, so the proof keeps a principal's task from all others. It is
// valid until the router ends.
type Tasks struct {
	Secret []byte // only its holder can make ids
}

// Expose returns a result with the id of the task in it as the principal sees it, if the result
// is a task. tool is the ID of the tool that began it.
func (t Tasks) Expose(principal, tool string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"taskId"`)) {
		return result
	}
	id, ok := wire.String(wire.Member(result, "taskId"))
	if !ok {
		return result
	}
	if principal != "" {
		id = t.proof(principal, tool, id) + taskSeparator + id
	}
	return wire.SetMember(result, "taskId", wire.AppendString(nil, url.PathEscape(tool)+taskSeparator+id))
}

// Resolve returns the ID of the tool that began a task, and the id by which the tool's server
// knows the task. It reports false if the principal has no task of that id.
func (t Tasks) Resolve(principal, exposed string) (tool, id string, ok bool) {
	tool, id, ok = strings.Cut(exposed, taskSeparator)
	tool, err := url.PathUnescape(tool)
	if !ok || err != nil {
		return "", "", false
	}
	if principal == "" {
		return tool, id, true
	}
	proof, id, _ := strings.Cut(id, taskSeparator)
	return tool, id, hmac.Equal([]byte(proof), []byte(t.proof(principal, tool, id)))
}

func (t Tasks) proof(principal, tool, id string) string {
	mac := hmac.New(sha256.New, t.Secret)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", principal, tool, id)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
