package adapter

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Call implements [session.Session].
func (s *remoteStream) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	id := rand.Text()
	r.Meta = requestMeta(ctx, id, r, s.remotes.level.Load())
	result, err := s.send(ctx, r)
	return s.finish(r, id, result, err)
}

// send sends a request, unless the server was forgotten, and returns the result.
func (s *remoteStream) send(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if !s.remotes.begin(s) {
		return nil, fmt.Errorf("%w: %w", session.ErrNotSent, errForgotten)
	}
	defer s.remotes.done(s)
	return s.Connection.Call(ctx, r)
}

// deadlineSlack is how much longer the other node may take than a call has here, so that the time-out of
// this node decides, and says what to do.
const deadlineSlack = 2 * time.Second

// Members of _meta that requests of the modern era have, and that clients of the legacy era don't send.
const (
	clientInfo = "io.modelcontextprotocol/clientInfo"
	logLevel   = "io.modelcontextprotocol/logLevel"
)

// requestMeta returns the _meta of a request as the other node gets it. level is of the log messages that
// clients of the legacy era want; may be nil.
func requestMeta(ctx context.Context, id string, one session.Request, level *string) json.RawMessage {
	meta := wire.OrEmpty(one.Meta)
	if from := one.From; from != nil && !from.Modern() {
		if name := from.ClientName(); name != "" {
			meta = wire.SetMember(meta, clientInfo, wire.Marshal(map[string]string{"name": name, "version": ""}))
		}
		if level != nil {
			meta = wire.SetMember(meta, logLevel, wire.AppendString(nil, *level))
		}
	}
	about := clusternode.Request{ID: id, Origin: one.Origin}
	if deadline, ok := ctx.Deadline(); ok {
		about.Deadline = deadline.Add(deadlineSlack).UnixMilli()
	}
	return wire.SetMember(meta, clusternode.MetaKey, wire.Marshal(about))
}

// finish returns the outcome of a request, as the client's node has it.
func (s *remoteStream) finish(r session.Request, id string, result json.RawMessage, err error) (json.RawMessage, error) {
	ran := session.Run{Nodes: []string{s.to.Node}, Kept: s.key.home != nil}
	if r.Ran != nil {
		defer func() { *r.Ran = ran }()
	}
	switch {
	case err != nil:
		return nil, s.fault(err)
	case r.Method != "tools/call":
		return result, nil
	}
	meta := wire.Member(result, "_meta")
	text := wire.Member(meta, clusternode.MetaKey)
	if text == nil && string(wire.Member(result, "resultType")) == `"input_required"` { // no result yet
		return result, nil
	}
	var answer clusternode.Answer
	signed := clusternode.Signed{
		ID: id, Owner: s.to.Key, Caller: s.remotes.node.Key(), Server: s.to.Server, Tool: wire.Text(r.Params, "name"), Params: r.Params, Result: result,
	}
	if json.Unmarshal(text, &answer) != nil || !ed25519.Verify(s.public, signed.Bytes(), answer.Signature) {
		s.warned.Do(func() {
			s.remotes.log.Warn("a node has not signed the result of a call, which is dropped", zap.String("node", s.to.Node), zap.String("server", s.key.server))
		})
		return nil, fmt.Errorf("%w: node %q has not signed the result", session.ErrClosed, s.to.Node)
	}
	ran.Verified, ran.Degraded = true, answer.Degraded
	if meta = wire.DeleteMember(meta, clusternode.MetaKey); string(meta) == "{}" { // the server's result had none
		return wire.DeleteMember(result, "_meta"), nil
	}
	return wire.SetMember(result, "_meta", meta), nil
}

// maxReason bounds the reasons of other nodes that are shown, in bytes.
const maxReason = 4 << 10

// fault returns the error of a request as the client's node has it. A node answers with an error that
// says so if it has not sent a request to the server, or if the answer of its server was lost.
func (s *remoteStream) fault(err error) error {
	own, ok := errors.AsType[*session.Error](err)
	if !ok {
		if errors.Is(err, session.ErrNotSent) || errors.Is(err, session.ErrClosed) {
			return fmt.Errorf("node %q: %w", s.to.Node, err)
		}
		return err
	}
	var kind error
	switch wire.Text(wire.Member(own.Data, "metarouter"), "outcome") {
	case "not_sent":
		kind = session.ErrNotSent
	case "closed":
		kind = session.ErrClosed
	default:
		return own
	}
	return fmt.Errorf("%w: node %q: %s", kind, s.to.Node, plain.Line(own.Message[:min(len(own.Message), maxReason)]))
}

// Subscribe implements [session.Session].
func (s *remoteStream) Subscribe(ctx context.Context, uri string) (cancel func(), err error) {
	if cancel, err = s.Connection.Subscribe(ctx, uri); err != nil {
		err = s.fault(err)
	}
	return cancel, err
}
