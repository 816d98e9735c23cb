//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
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

// A modern client shows its person the URL while its call waits, and the call goes on after the login.
// Package adapter shows what else happens around it.
func TestModernClientLogsIn(t *testing.T) {
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	asked := make(chan *mcp.ElicitParams, 10)
	cs := s.connect("2026-07-28", &mcp.ClientOptions{Capabilities: opensURLs, ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- r.Params
		go fakeissuer.Follow(t.Context(), r.Params.URL) // the person answers before the login is over
		return &mcp.ElicitResult{Action: "accept"}, nil
	}})
	for range 2 {
		if r, err := look(within(t), cs); err != nil || r.IsError {
			t.Fatalf("%v %+v", err, r)
		}
	}
	p := <-asked
	if p.Mode != "url" || !strings.Contains(p.Message, `server "remote" needs a login: nobody has logged in`) || len(asked) > 0 {
		t.Errorf("%s: %s; asked %d times more", p.Mode, p.Message, len(asked))
	}
	if n := issuer.Counts().Authorizations; n != 1 {
		t.Errorf("%d logins", n)
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
	_, err := look(within(t), cs)
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	var data struct{ Elicitations []*mcp.ElicitParams }
	if !ok || refused.Code != mcp.CodeURLElicitationRequired || json.Unmarshal(refused.Data, &data) != nil || len(data.Elicitations) != 1 {
		t.Fatalf("%v", err)
	}
	one := data.Elicitations[0]
	if one.Mode != "url" || one.ElicitationID == "" || !strings.HasPrefix(one.URL, issuer.URL) || one.Message == "" {
		t.Errorf("%+v", one)
	}
	follow(t, one.URL)
	select {
	case id := <-complete:
		if id != one.ElicitationID {
			t.Errorf("the login %q is over, not %q", id, one.ElicitationID)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("no one says that the login is over")
	}
	if r, err := look(within(t), cs); err != nil || r.IsError {
		t.Errorf("after the login: %v %+v", err, r)
	}
}
