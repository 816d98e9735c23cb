package service

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// refuseNested answers the router that started this one, in MCP, that a router must not
// run inside a router. The error says the same.
func refuseNested(in io.Reader, out io.Writer) error {
	const why = "a router was started inside a router"
	refuse(in, out, session.Error{Code: session.CodeSelf, Message: why, Data: json.RawMessage(`{"metarouter":"self"}`)})
	return errors.New(why + "; take the entry out of the configuration")
}

// refuseStart answers a client on stdin and stdout, in MCP, why the router can't start: many
// clients show the answer, and do not show stderr.
func refuseStart(in io.Reader, out io.Writer, why error) {
	refuse(in, out, session.Error{Code: session.CodeInternal, Message: "metarouter can't start: " + why.Error()})
}

// firstRequest is how long a client has to send its first request.
const firstRequest = 5 * time.Second

func refuse(in io.Reader, out io.Writer, e session.Error) {
	answered := make(chan struct{})
	go func() { // a stuck read ends with the process
		defer close(answered)
		if line, err := wire.NewReader(in, wire.MaxLine).Next(); err == nil {
			m, _ := wire.Parse(line)
			out.Write(wire.AppendError(nil, m.ID, wire.Marshal(e)))
		}
	}()
	select {
	case <-answered:
	case <-time.After(firstRequest):
	}
}
