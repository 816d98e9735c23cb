package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func request() Request {
	return Request{
		Principal: "ci", Profile: "work", Client: "test", Server: "github", Tool: "create_issue",
		Definition: json.RawMessage(`{"name":"create_issue"}`), Arguments: json.RawMessage(`{"title":"x","n":[1,{"b":1,"a":2}]}`),
		Reason: `profile "work" asks before each call`, Policy: "v1",
	}
}

// says returns a person who answers at once.
func says(said Answer, err error) Person {
	return func(context.Context, string) (Answer, error) { return said, err }
}

// hangs is a person who does not answer.
func hangs(ctx context.Context, _ string) (Answer, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// why returns why a call was refused, -1 if it was not refused by the desk.
func why(err error) Why {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Why
	}
	return -1
}

func newDesk() *Desk { return NewDesk(zap.NewNop(), nil) }

func TestPersonAnswers(t *testing.T) {
	cannot := &session.Error{Code: session.CodeMethodNotFound, Message: "no"}
	for _, tc := range []struct {
		name string
		says Person
		want Why // -1 for no error
		left int // requests on the desk afterwards
	}{
		{"accept", says(Accept, nil), -1, 0},
		{"decline", says(Decline, nil), Declined, 0},
		{"cancel", says(Cancel, nil), Closed, 0},
		{"something else", says("maybe", nil), Declined, 0},
		{"nobody", hangs, Late, 0},
		{"the client can't ask after all", says("", cannot), Waits, 1},
		{"the question fails", says("", errors.New("broken pipe")), Unanswered, 0},
		{"no person", nil, Waits, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				err := d.Ask(t.Context(), request(), tc.says)
				if why(err) != tc.want || (err == nil) != (tc.want == -1) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				expect.Equal(t, len(d.List()), tc.left, "requests are left")
			})
		})
	}
}

// An approval on the page lets the same request pass once, within the lifetime.
func TestPageApproves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		if err := d.Ask(t.Context(), request(), nil); why(err) != Waits {
			t.Fatal(err)
		}
		if err := d.Ask(t.Context(), request(), nil); why(err) != Waits || len(d.List()) != 1 {
			t.Fatalf("the same request: %v, %d on the desk", err, len(d.List()))
		}
		id := d.List()[0].ID
		time.Sleep(Lifetime - 1)
		expect.OK(t, d.Decide(id, Accept, "ada"))
		if n := len(d.List()); n != 0 {
			t.Fatalf("%d requests wait after the approval", n)
		}
		if err := d.Decide(id, Accept, "ada"); !errors.Is(err, ErrGone) {
			t.Fatalf("approved twice: %v", err)
		}
		time.Sleep(Lifetime - 1)
		expect.OK(t, d.Ask(t.Context(), request(), nil))
		if err := d.Ask(t.Context(), request(), nil); why(err) != Waits {
			t.Fatalf("passed twice: %v", err)
		}
	})
}

func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.Ask(t.Context(), request(), nil)
		id := d.List()[0].ID
		expect.Equal(t, time.Until(d.List()[0].Expires), Lifetime, "expires in")
		time.Sleep(Lifetime)
		expect.Equal(t, len(d.List()), 0, "requests are listed after they expired")
		if err := d.Decide(id, Accept, ""); !errors.Is(err, ErrGone) {
			t.Errorf("approved after it expired: %v", err)
		}
		d.Ask(t.Context(), request(), nil)
		expect.OK(t, d.Decide(d.List()[0].ID, Accept, ""))
		time.Sleep(Lifetime)
		expect.Equal(t, why(d.Ask(t.Context(), request(), nil)), Waits, "an expired approval")
	})
}

// A refusal on the page stays for a while, so that the client does not put the same request
// there again.
func TestPageDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.Ask(t.Context(), request(), nil)
		expect.OK(t, d.Decide(d.List()[0].ID, Decline, "ada"))
		for range 2 {
			if err := d.Ask(t.Context(), request(), nil); why(err) != Declined || !strings.Contains(err.Error(), "ada") {
				t.Errorf("got %v", err)
			}
		}
		time.Sleep(Lifetime)
		expect.Equal(t, why(d.Ask(t.Context(), request(), nil)), Waits, "after the lifetime")
	})
}

// Who answers first counts, and the other question ends.
func TestPageAnswersWhileThePersonIsAsked(t *testing.T) {
	for _, tc := range []struct {
		said Answer
		want Why
	}{{Accept, -1}, {Decline, Declined}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			done, began := make(chan error), time.Now()
			ended := false
			go func() {
				done <- d.Ask(t.Context(), request(), func(ctx context.Context, _ string) (Answer, error) {
					defer func() { ended = true }()
					return hangs(ctx, "")
				})
			}()
			synctest.Wait()
			all := d.List()
			if len(all) != 1 || !all[0].Asking {
				t.Fatalf("on the desk: %+v", all)
			}
			expect.OK(t, d.Decide(all[0].ID, tc.said, "ada"))
			if err := <-done; why(err) != tc.want || !ended || time.Since(began) > 0 {
				t.Errorf("got %v after %v, question ended: %v", err, time.Since(began), ended)
			}
			expect.Equal(t, why(d.Ask(t.Context(), request(), nil)), Waits, "the answer counts for a second call")
		})
	}
}

// A call that is cancelled while it waits is not made, even if a person agrees then, and
// leaves nothing on the desk.
func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		left := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			done <- d.Ask(ctx, request(), func(ctx context.Context, _ string) (Answer, error) {
				<-ctx.Done()
				return Accept, nil
			})
		}()
		synctest.Wait()
		id := d.List()[0].ID
		cancel(left)
		expect.Equal(t, <-done, left)
		if err := d.Decide(id, Accept, ""); !errors.Is(err, ErrGone) || len(d.List()) != 0 {
			t.Errorf("approved after the call has ended: %v", err)
		}
	})
}

// Each part of a request binds its approval.
func TestApprovalIsForOneRequest(t *testing.T) {
	for name, edit := range map[string]func(r *Request){
		"principal":  func(r *Request) { r.Principal = "ci2" },
		"profile":    func(r *Request) { r.Profile = "home" },
		"server":     func(r *Request) { r.Server = "gitlab" },
		"tool":       func(r *Request) { r.Tool = "create_issues" },
		"definition": func(r *Request) { r.Definition = json.RawMessage(`{"name":"create_issue","title":"x"}`) },
		"argument":   func(r *Request) { r.Arguments = json.RawMessage(`{"title":"y","n":[1,{"b":1,"a":2}]}`) },
		"deep":       func(r *Request) { r.Arguments = json.RawMessage(`{"title":"x","n":[1,{"b":1,"a":3}]}`) },
		"twice":      func(r *Request) { r.Arguments = json.RawMessage(`{"title":"z","title":"x","n":[1,{"b":1,"a":2}]}`) },
		"others":     func(r *Request) { r.Others = json.RawMessage(`{"task":{}}`) },
		"policy":     func(r *Request) { r.Policy = "v2" },
		"shifted":    func(r *Request) { r.Server, r.Tool = "githubc", "reate_issue" },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			d.Ask(t.Context(), request(), nil)
			d.Decide(d.List()[0].ID, Accept, "")
			other := request()
			edit(&other)
			expect.Equal(t, why(d.Ask(t.Context(), other, nil)), Waits, "another request passes")
			same := request()
			same.Client, same.Arguments = "renamed", json.RawMessage("{ \"n\": [1, {\"a\":2,\n\"b\":1}],\"title\":\"x\" }")
			expect.OK(t, d.Ask(t.Context(), same, nil), "the same request")
		})
	}
}

// A client can't flood the page, and others still come through.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		numbered := func(principal string, n int) Request {
			r := request()
			r.Principal, r.Arguments = principal, fmt.Appendf(nil, `{"n":%d}`, n)
			return r
		}
		for n := range maxOfPrincipal {
			if err := d.Ask(t.Context(), numbered("a", n), nil); why(err) != Waits {
				t.Fatal(err)
			}
		}
		expect.Equal(t, why(d.Ask(t.Context(), numbered("a", -1), nil)), Full, "the principal's next request")
		for _, p := range d.List() {
			d.Decide(p.ID, Accept, "")
		}
		for n := range maxOfPrincipal {
			expect.OK(t, d.Ask(t.Context(), numbered("a", n), nil))
		}
		expect.Equal(t, why(d.Ask(t.Context(), numbered("a", -1), nil)), Full, "the rate counts requests that were answered")
		expect.OK(t, d.Ask(t.Context(), numbered("a", -1), says(Accept, nil)), "a client that can be asked")
		for i := range maxRequests {
			d.Ask(t.Context(), numbered(fmt.Sprint("b", i/maxOfPrincipal), i), nil)
		}
		if err := d.Ask(t.Context(), numbered("c", 0), nil); why(err) != Full || len(d.List()) != maxRequests {
			t.Errorf("%v, with %d on the desk", err, len(d.List()))
		}
		time.Sleep(Lifetime)
		if err := d.Ask(t.Context(), numbered("a", 0), nil); why(err) != Waits || len(d.recent) != 1 {
			t.Errorf("after the lifetime: %v, %d principals are remembered", err, len(d.recent))
		}
	})
}

func TestChanged(t *testing.T) {
	d := newDesk()
	is := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	step := func(name string, do func()) {
		t.Helper()
		before := d.Changed()
		if is(before) {
			t.Errorf("%s: changed before", name)
		}
		if do(); !is(before) {
			t.Errorf("%s: not announced", name)
		}
	}
	step("put", func() { d.Ask(t.Context(), request(), nil) })
	step("approve", func() { d.Decide(d.List()[0].ID, Accept, "") })
	step("redeem", func() { d.Ask(t.Context(), request(), nil) })
	step("withdraw", func() { d.Ask(t.Context(), request(), says(Decline, nil)) })
}

// The answer to a client names the tool and its server, the reason, and the next step.
func TestRefusedSaysWhatToDo(t *testing.T) {
	d := newDesk()
	err := d.Ask(t.Context(), request(), nil)
	for _, want := range []string{"create_issue", "github", `profile "work" asks before each call`, "/#approvals", "elicitation", `edit "ask"`} {
		expect.Contains(t, err.Error(), want)
	}
	expect.Equal(t, strings.Contains(err.Error(), d.List()[0].ID), false, "the client learns the ID")
}

// waiter is a client that has its calls wait for the page.
type waiter struct {
	session.Client
	waits atomic.Int32
}

func (w *waiter) AwaitPage(context.Context) (answered func()) {
	w.waits.Add(1)
	return func() { w.waits.Add(-1) }
}

// A person may agree to all calls of a tool by a script: those that wait and further ones, also of a client that can't be
// asked, but not those of another tool or script, or under other rules.
func TestAgreementToAScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w, done := newDesk(), new(waiter), make(chan error, 2)
		call := func(edit func(r *Request)) Request {
			r := request()
			r.Script, r.Page = "run", w
			edit(&r)
			return r
		}
		for _, n := range []string{"1", "2"} {
			go func() {
				done <- d.Ask(t.Context(), call(func(r *Request) { r.Arguments = json.RawMessage(`{"n":` + n + `}`) }), nil)
			}()
		}
		synctest.Wait()
		waiting := d.List()
		if len(waiting) != 2 || w.waits.Load() != 2 || waiting[0].Script != "run" || waiting[0].Asking {
			t.Fatalf("%d calls wait: %+v", w.waits.Load(), waiting)
		}
		expect.OK(t, d.Decide(waiting[0].ID, AcceptAll, "ada"))
		for range 2 {
			expect.OK(t, <-done)
		}
		if w.waits.Load() != 0 || len(d.List()) != 0 {
			t.Errorf("%d calls wait, %d requests are on the desk", w.waits.Load(), len(d.List()))
		}
		expect.OK(t, d.Ask(t.Context(), call(func(r *Request) { r.Arguments = json.RawMessage(`{"n":3}`) }), nil), "a further call")
		for name, edit := range map[string]func(r *Request){
			"tool": func(r *Request) { r.Tool = "x" }, "script": func(r *Request) { r.Script = "other" }, "no script": func(r *Request) { r.Script = "" },
			"policy": func(r *Request) { r.Policy = "v2" }, "principal": func(r *Request) { r.Principal = "eve" },
		} {
			expect.Equal(t, why(d.Ask(t.Context(), call(edit), says(Decline, nil))), Declined, "another %s", name)
		}
		unable := says("", &session.Error{Message: "no"})
		of := func(script string) func(r *Request) { return func(r *Request) { r.Script, r.Tool = script, "posted" } }
		_ = d.Ask(t.Context(), call(of("posted")), unable)
		expect.OK(t, d.Decide(d.List()[0].ID, AcceptAll, "ada"))
		expect.OK(t, d.Ask(t.Context(), call(of("sent again")), unable))
		expect.Equal(t, why(d.Ask(t.Context(), call(of("sent again")), unable)), Waits, "a further call of another script")
		if err := d.Ask(t.Context(), call(func(r *Request) { r.Script = "late" }), nil); why(err) != Late || strings.Contains(err.Error(), "again") {
			t.Errorf("without an answer: %v", err)
		}
	})
}
