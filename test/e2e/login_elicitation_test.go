//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// connect starts a router, with the SDK's client of a revision.
func (s *setup) connect(revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	cmd := exec.Command(metarouter, s.command("serve")...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, o).
		Connect(within(s.t), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cs.Close() })
	return cs
}

var opensURLs = &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}

func look(ctx context.Context, cs *mcp.ClientSession) (*mcp.CallToolResult, error) {
	return cs.CallTool(ctx, &mcp.CallToolParams{Name: "remote__look", Arguments: map[string]any{}})
}

// A modern client shows its person the URL while its call waits. The call goes on after the login,
// and is sent to the server once.
func TestModernClientLogsIn(t *testing.T) {
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	var asked atomic.Int32
	cs := s.connect("2026-07-28", &mcp.ClientOptions{Capabilities: opensURLs, ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		why := "nobody has logged in"
		if asked.Add(1) > 1 {
			why = ""
		}
		if r.Params.Mode != "url" || !strings.Contains(r.Params.Message, `server "remote" needs a login: `+why) {
			t.Errorf("%s: %s", r.Params.Mode, r.Params.Message)
		}
		go fakeissuer.Follow(t.Context(), r.Params.URL) // the person answers before the login is over
		return &mcp.ElicitResult{Action: "accept"}, nil
	}})
	r, err := look(within(t), cs)
	if err != nil || r.IsError {
		t.Fatalf("%v %+v", err, r)
	}
	if r, err = look(within(t), cs); err != nil || r.IsError || asked.Load() != 1 {
		t.Errorf("the second call: %v %+v, asked %d times", err, r, asked.Load())
	}
	if n := issuer.Counts().Authorizations; n != 1 {
		t.Errorf("%d logins", n)
	}

	// A server that refuses the login in the middle of a session is logged in to again.
	issuer.RevokeAll()
	if r, err = look(within(t), cs); err != nil || r.IsError || asked.Load() < 2 {
		t.Errorf("after a revocation: %v %+v, asked %d times", err, r, asked.Load())
	}
}

// A legacy client gets an error with the URL, and a notification when the login is over.
func TestLegacyClientLogsIn(t *testing.T) {
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	complete := make(chan string, 10)
	cs := s.connect("2025-11-25", &mcp.ClientOptions{
		Capabilities: opensURLs,
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("not asked")
		},
		ElicitationCompleteHandler: func(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
			complete <- r.Params.ElicitationID
		},
	})
	var first *mcp.ElicitParams
	for range 2 { // the second call is asked for the same login
		_, err := look(within(t), cs)
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		var data struct{ Elicitations []*mcp.ElicitParams }
		if !ok || refused.Code != mcp.CodeURLElicitationRequired || json.Unmarshal(refused.Data, &data) != nil || len(data.Elicitations) != 1 {
			t.Fatalf("%v", err)
		}
		if one := data.Elicitations[0]; first == nil {
			first = one
		} else if one.ElicitationID != first.ElicitationID || one.URL != first.URL {
			t.Errorf("another login: %+v, %+v", one, first)
		}
	}
	if first.Mode != "url" || first.ElicitationID == "" || !strings.HasPrefix(first.URL, issuer.URL) || first.Message == "" {
		t.Errorf("%+v", first)
	}
	follow(t, first.URL)
	select {
	case id := <-complete:
		if id != first.ElicitationID {
			t.Errorf("the login %q is over, not %q", id, first.ElicitationID)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("no one says that the login is over")
	}
	if r, err := look(within(t), cs); err != nil || r.IsError {
		t.Errorf("after the login: %v %+v", err, r)
	}
	if len(complete) > 0 {
		t.Errorf("told again: %s", <-complete)
	}
}
