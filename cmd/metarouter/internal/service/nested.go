package service

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// RefuseNested answers the router that started this one, in MCP, that a router must not
// run inside a router. The error says the same.
func RefuseNested(in io.Reader, out io.Writer) error {
	const why = "a router was started inside a router"
	id := json.RawMessage(nil)
	if line, err := wire.NewReader(in, wire.MaxLine).Next(); err == nil {
		if m, err := wire.Parse(line); err == nil {
			id = m.ID
		}
	}
	out.Write(wire.AppendError(nil, id, wire.Marshal(session.Error{
		Code: supervisor.SelfCode, Message: why, Data: json.RawMessage(`{"metarouter":"self"}`),
	})))
	return errors.New(why + "; take the entry out of the configuration")
}
