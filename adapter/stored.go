package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// storedScripts returns the scripts of the bundled server, by the IDs of their tools; nil without the server.
func storedScripts(servers []config.Server) map[string]stored.Script {
	i := slices.IndexFunc(servers, func(s config.Server) bool { return s.Transport == config.Scripts })
	if i < 0 {
		return nil
	}
	all := make(map[string]stored.Script)
	for _, one := range servers[i].Scripts {
		all[registry.ID(servers[i].Name, one.Name)] = one
	}
	return all
}

// listScripts serves the bundled server of stored scripts over conn. It only lists them: a [storedSession] runs them.
func (o Options) listScripts(entry config.Server, conn net.Conn) {
	s := mcp.NewServer(&mcp.Implementation{Name: "metarouter-scripts", Title: "Stored scripts", Version: o.Version}, nil)
	for _, one := range entry.Scripts {
		t := mcp.Tool{Name: one.Name, Description: one.Description, InputSchema: one.Input}
		t.Meta = mcp.Meta{codeKey: hashOf(one)} // an edited script is another tool for those who approve its calls
		s.AddTool(&t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("a stored script runs in the router")
		})
	}
	_ = s.Run(context.Background(), &mcp.IOTransport{Reader: conn, Writer: conn}) // until conn ends
}

// codeKey is the key in the _meta of a stored script's definition for the hash of its text.
const codeKey = "metarouter/code"

func hashOf(s stored.Script) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s.Code))) }

type storedKey struct{}

// A storedCall is a call of a stored script, as its client made it.
type storedCall struct {
	calls  calls
	made   selector.Call
	script stored.Script // as it was when the call came
}

// withScript returns the context in which a [storedSession] runs the tool of a call, if the tool is a stored script.
func withScript(ctx context.Context, c calls, call selector.Call) (context.Context, error) {
	s, ok := c.router.current.load().scripts[call.Tool.ID]
	if !ok {
		return ctx, nil
	}
	if ctx.Value(storedKey{}) != nil {
		return ctx, fmt.Errorf("a stored script can't call another one, and %s is one; call the tools that it calls", call.Tool.ID)
	}
	if wire.Text(wire.Member(call.Tool.Definition, "_meta"), codeKey) != hashOf(s) {
		return ctx, fmt.Errorf("%s was edited just now, and nothing was called; call it again", call.Tool.ID)
	}
	return context.WithValue(ctx, storedKey{}, &storedCall{c, call, s}), nil
}

// IsScript reports whether the tool is a stored script.
func (c calls) IsScript(t *registry.NormalizedTool) bool {
	_, is := c.router.current.load().scripts[t.ID]
	return is
}

// A storedSession is the session for a call of a stored script.
type storedSession struct {
	session.Session
	*storedCall
}

// Call implements [session.Session]. The script has the rights of the client.
func (s storedSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	run, id := host.RunOf(ctx), s.made.Tool.ID
	run.Script = selector.Script{Code: s.script.Code, Input: wire.Member(r.Params, "arguments")}
	run.Call = s.made
	run.Call.Params, run.Call.Repaired, run.Call.Checked = nil, "", nil
	o := s.calls.RunScript(ctx, run)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case o.Err != nil && o.Err.Name == "LostError": // a script that has called this one ends, too
		return nil, &script.Lost{Tool: id, Err: errors.New(o.Failure())}
	case o.Err != nil && o.Err.Name == "BusyError":
		return nil, fmt.Errorf("%w: %s", session.ErrNotSent, o.Err.Message)
	}
	return o.Result(), nil
}
