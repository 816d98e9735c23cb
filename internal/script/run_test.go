package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A journal records a run, and may give the answers of a run before.
type journal struct {
	begun  time.Time
	before []Answer
	notes  []Answer
}

func (j *journal) Begun() time.Time  { return j.begun }
func (j *journal) Answered(a Answer) { j.notes = append(j.notes, a) }
func (j *journal) Next() (Answer, bool) {
	if len(j.before) == 0 {
		return Answer{}, false
	}
	next := j.before[0]
	j.before = j.before[1:]
	return next, true
}

// inOrder returns a host and options whose calls end in an order of tools.
func inOrder(j Journal, asked *atomic.Int32, order ...string) (Host, Options) {
	delivered := map[string]chan struct{}{}
	for _, tool := range order {
		delivered[tool] = make(chan struct{})
	}
	ended := 0
	progress := func(done int, tool string) {
		if done > ended && delivered[tool] != nil {
			close(delivered[tool])
		}
		ended = done
	}
	return fakeHost{call: func(_ context.Context, c Call) (json.RawMessage, error) {
		asked.Add(1)
		if at := slices.Index(order, c.Tool); at > 0 {
			<-delivered[order[at-1]]
		}
		if c.Tool == "s:fails" {
			return nil, fmt.Errorf("call %d: %w", c.Number, overload)
		}
		return json.RawMessage(fmt.Sprintf(`{"structuredContent":{"n":%d}}`, c.Number)), nil
	}}, Options{Journal: j, Progress: progress}
}

const racing = `
const order = [Math.random(), Date.now(), await search('x')];
await Promise.all(['s:a', 's:fails', 's:b', 's:c'].map(t => call(t, {t}).then(x => order.push(x.n), e => order.push(e.message + e.retryable))));
order.push((await call('s:last')).n, Math.random());
console.log(order.length);
return order`

// TestReplay runs a script, and then again with the first answers of the journal: it does the same.
func TestReplay(t *testing.T) {
	tools := []string{"s:c", "s:a", "s:fails", "s:b", "s:last"} // which end in this order
	var asked atomic.Int32
	first := &journal{begun: time.UnixMilli(1_700_000_000_123)}
	host, options := inOrder(first, &asked, tools...)
	want := engine.Run(t.Context(), Script{Code: racing}, host, options)
	if want.Err != nil || !strings.Contains(string(want.Value), `,1700000000123,["found for x"],5,2,"call 3: too many callstrue",4,6,`) || len(first.notes) != 6 {
		t.Fatalf("%s, %v", want.Value, want.Err)
	}
	for n := range len(first.notes) + 1 {
		again := &journal{begun: first.begun, before: slices.Clone(first.notes[:n])}
		left := tools[max(n-1, 0):] // the search came first
		asked.Store(0)
		host, options := inOrder(again, &asked, left...)
		got := engine.Run(t.Context(), Script{Code: racing}, host, options)
		if !reflect.DeepEqual(got, want) || int(asked.Load()) != len(left) || !slices.EqualFunc(again.notes, first.notes[n:], func(a, b Answer) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("after %d answers: %s, %v, %d calls; want %s, %v", n, got.Value, got.Err, asked.Load(), want.Value, want.Err)
		}
	}
}

func TestReplayDiverges(t *testing.T) {
	first := &journal{}
	engine.Run(t.Context(), Script{Code: racing}, fakeHost{}, Options{Journal: first})
	for _, code := range []string{
		strings.Replace(racing, "'s:b'", "'s:other'", 1), strings.Replace(racing, "search('x')", "search('y')", 1),
		"return 1", "await search('x'); throw 1", "await search('x'); await new Promise(() => {})",
	} {
		var asked atomic.Int32
		host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) { asked.Add(1); return nil, errors.New("no") }}
		o := engine.Run(t.Context(), Script{Code: code}, host, Options{Journal: &journal{before: slices.Clone(first.notes)}})
		if o.Err != ErrDiverged || asked.Load() > 0 {
			t.Errorf("%s: %v, %d calls", code, o.Err, asked.Load())
		}
	}
}

func TestLostCallEndsTheScript(t *testing.T) {
	j := &journal{}
	host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
		if c.Tool == "s:lost" {
			return nil, fmt.Errorf("call: %w", &Lost{Tool: c.Tool, Err: errors.New("the router was killed")})
		}
		<-ctx.Done() // the script's end cancels it
		return nil, ctx.Err()
	}}
	o := engine.Run(t.Context(), Script{Code: "const other = call('s:other');\ntry { await call('s:lost') } catch {}\nreturn 1"}, host, Options{Journal: j})
	if o.Err == nil || o.Err.Name != "LostError" || o.Err.Line != 2 || o.Err.Message != "the result of s:lost was lost, so that its effect is unknown: the router was killed" || len(j.notes) > 0 {
		t.Errorf("%+v, %d answers", o.Err, len(j.notes))
	}
}

// TestAnswersAtTheEnd: a call that ended well counts as made, although the script did not get its answer.
func TestAnswersAtTheEnd(t *testing.T) {
	host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
		<-ctx.Done() // the script's end
		return json.RawMessage(fmt.Sprintf(`{"isError":%t}`, c.Tool == "s:fails")), nil
	}}
	o := engine.Run(t.Context(), Script{Code: "call('s:t'); call('s:fails'); throw 1"}, host, Options{})
	if o.Err == nil || !o.Calls[0].OK || o.Calls[1].OK {
		t.Errorf("%+v", o)
	}
}

func TestCallsAtOnce(t *testing.T) {
	var open, most atomic.Int32
	var all sync.WaitGroup
	all.Add(3)
	host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) {
		n := open.Add(1)
		if n > most.Load() {
			most.Store(n)
		}
		all.Done()
		all.Wait() // the three are open together
		open.Add(-1)
		return json.RawMessage(`{}`), nil
	}}
	var progress []string
	o := engine.Run(t.Context(), Script{Code: "await Promise.all([1, 2, 3].map(i => call('s:t' + i)))"}, host,
		Options{Limits: Limits{Concurrent: 3}, Progress: func(done int, tool string) { progress = append(progress, fmt.Sprint(done, tool)) }})
	if o.Err != nil || most.Load() != 3 || !slices.Equal(progress[:3], []string{"0s:t1", "0s:t2", "0s:t3"}) || len(progress) != 6 || progress[5][0] != '3' {
		t.Errorf("%v, %d at once, %q", o.Err, most.Load(), progress)
	}
	most.Store(0)
	host.call = func(context.Context, Call) (json.RawMessage, error) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		return json.RawMessage(`{}`), nil
	}
	code := "let n = 0; await Promise.all(Array.from({length: 50}, (_, i) => call('s:t').then(() => { if (n++ !== i) throw Error('order ' + i) })))"
	if o := engine.Run(t.Context(), Script{Code: code}, host, Options{Limits: Limits{Concurrent: 1}}); o.Err != nil || most.Load() != 1 {
		t.Errorf("%v, %d at once", o.Err, most.Load())
	}
}

// TestAScriptWaitsForItsCalls: calls that are not awaited end before the script, unless it fails.
func TestAScriptWaitsForItsCalls(t *testing.T) {
	o := run1(t, "call('s:a').then(() => call('s:b')).then(() => console.log('end')); return 1")
	if o.Err != nil || o.Log != "end\n" || len(o.Calls) != 2 || !o.Calls[1].OK {
		t.Errorf("%+v", o)
	}
	host := fakeHost{call: func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() }}
	o = engine.Run(t.Context(), Script{Code: "call('s:a'); throw Error('x')"}, host, Options{})
	if o.Err == nil || o.Err.Message != "x" || o.Calls[0].OK {
		t.Errorf("%+v", o)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	host := fakeHost{call: func(ctx context.Context, _ Call) (json.RawMessage, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for _, code := range []string{"await call('s:t')", "call('s:t'); for (;;);", "call('s:t'); for (;;) await 1"} {
		if o := engine.Run(ctx, Script{Code: code}, host, Options{}); o.Err == nil || o.Err.Name != "CancelError" {
			t.Errorf("%s: %v", code, o.Err)
		}
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}

// TestPause: a wait for a person is not the script's time, nor that of the script that has called it.
func TestPause(t *testing.T) {
	run1(t, "") // loads the interpreter outside of the bubble
	var pausing func(wait time.Duration) fakeHost
	pausing = func(wait time.Duration) fakeHost {
		return fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
			switch c.Tool {
			case "s:asks":
				defer Pause(ctx)()
			case "s:runs":
				return engine.Run(ctx, Script{Code: "await Promise.all([call('s:asks'), call('s:asks')])"}, pausing(wait), Options{}).Result(), ctx.Err()
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			return json.RawMessage(`{}`), ctx.Err()
		}}
	}
	for _, test := range []struct {
		code, want string
		wait, took time.Duration
	}{
		{"await call('s:asks'); await call('s:asks')", "<nil>", 4 * time.Minute, 8 * time.Minute},
		{"await call('s:asks'); await call('s:asks')", "LimitError: no person answered within 10m0s; its last call is on line 1", 9 * time.Minute, 10 * time.Minute},
		{"await call('s:works')", "LimitError: the script took longer than 1m0s (\"timeout\" of \"scripts\" in the configuration); its last call is on line 1", 4 * time.Minute, time.Minute},
		{"await Promise.all([call('s:asks'), call('s:works')])", "LimitError: the script took longer than 1m0s (\"timeout\" of \"scripts\" in the configuration); its last call is on line 1", 4 * time.Minute, time.Minute},
		{"await call('s:runs'); await call('s:runs')", "<nil>", 4 * time.Minute, 8 * time.Minute},
		{"await Promise.all([call('s:runs'), call('s:works')])", "LimitError: the script took longer than 1m0s (\"timeout\" of \"scripts\" in the configuration); its last call is on line 1", 4 * time.Minute, time.Minute},
		{"for (;;) await call('s:works')", "LimitError: the script took longer than 1m0s (\"timeout\" of \"scripts\" in the configuration); its last call is on line 1", 7 * time.Second, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			o := engine.Run(t.Context(), Script{Code: test.code, Timeout: time.Hour}, pausing(test.wait), Options{})
			if got := fmt.Sprint(o.Err); got != test.want || time.Since(began) != test.took {
				t.Errorf("%s: %s after %v; want %s after %v", test.code, got, time.Since(began), test.want, test.took)
			}
		})
	}
	Pause(t.Context())() // of no script
}

// A script that waits for persons makes room for others if it can go on by its journal, and only then.
func TestEvict(t *testing.T) {
	e := New(engine.cacheDir)
	defer e.Close()
	const memory = 2 * moreMemory // two scripts do not fit, each with three quarters of it
	fill := "const a = new Uint8Array(" + fmt.Sprint(memory/4*3) + ").fill(1); await call('s:asks'); return a.length"
	for _, may := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := make(chan struct{}, 10)
		host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
			if c.Tool == "s:asks" {
				defer Pause(ctx)()
				<-ctx.Done()
			}
			return json.RawMessage(`{}`), ctx.Err()
		}}
		options := Options{Limits: Limits{Memory: memory}, Waiting: func(begins bool) {
			if begins {
				waits <- struct{}{}
			}
		}}
		if may {
			options.Evict = func() bool { cancel(errors.New("evicted")); return true }
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if o := e.Run(ctx, Script{Code: fill}, host, options); o.Err == nil || o.Err.Name != "CancelError" {
				t.Error(o.Err)
			}
		})
		<-waits
		other := e.Run(t.Context(), Script{Code: strings.Replace(fill, "s:asks", "s:t", 1)}, host, Options{Limits: Limits{Memory: memory}})
		if (other.Err == nil) != may || may && ctx.Err() == nil {
			t.Errorf("the waiting script may end: %v; the other one: %v", may, other.Err)
		}
		cancel(nil)
		waiting.Wait()
	}
}

func TestManyScripts(t *testing.T) {
	release := make(chan struct{})
	var waiting, all sync.WaitGroup
	waiting.Add(maxScripts)
	host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) {
		waiting.Done()
		<-release
		return json.RawMessage(`{}`), nil
	}}
	for range maxScripts {
		all.Go(func() {
			if o := engine.Run(t.Context(), Script{Code: "await call('s:t')"}, host, Options{}); o.Err != nil {
				t.Error(o.Err)
			}
		})
	}
	waiting.Wait()
	if o := run1(t, "1"); o.Err == nil || o.Err.Name != "BusyError" || engine.Mapped() == 0 {
		t.Errorf("%v, %d bytes", o.Err, engine.Mapped())
	}
	close(release)
	all.Wait()
	if o := run1(t, "1"); o.Err != nil || engine.Mapped() != 0 {
		t.Errorf("%v, %d bytes", o.Err, engine.Mapped())
	}
}

// TestScriptsTakeTurns: a script ends although another one computes all the time.
func TestScriptsTakeTurns(t *testing.T) {
	e := New(engine.cacheDir)
	defer e.Close()
	e.turns = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) { close(began); return nil, nil }}
	var hog sync.WaitGroup
	hog.Go(func() {
		if o := e.Run(ctx, Script{Code: "call('s:t'); for (;;);"}, host, Options{Limits: Limits{CPU: time.Minute}}); o.Err == nil || o.Err.Name != "CancelError" {
			t.Error(o.Err)
		}
	})
	<-began
	if o := e.Run(ctx, Script{Code: "return (await call('s:t', {x: 1})).x"}, fakeHost{}, Options{}); o.Err != nil {
		t.Error(o.Err)
	}
	cancel()
	hog.Wait()
}

// TestDamagedCache: the interpreter is compiled again.
func TestDamagedCache(t *testing.T) {
	run1(t, "") // fills the folder
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS(engine.cacheDir)))
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		return os.Truncate(path, 1000)
	})
	e := New(dir)
	defer e.Close()
	if o := e.Run(t.Context(), Script{Code: "1"}, fakeHost{}, Options{}); o.Err != nil || err != nil || files == 0 {
		t.Errorf("%v, %v, %d files", o.Err, err, files)
	}
}

func TestClose(t *testing.T) {
	e := New("")
	expect.OK(t, e.Close())
	if o := e.Run(t.Context(), Script{Code: "1"}, fakeHost{}, Options{}); o.Err == nil || !strings.Contains(o.Err.Message, "the engine is closed") {
		t.Error(o.Err)
	}
}

// An engine that is closed ends the scripts that run, and waits for their ends.
func TestCloseEndsScripts(t *testing.T) {
	e := New(engine.cacheDir)
	began, ended := make(chan struct{}), make(chan Outcome, 1)
	host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) { close(began); return nil, nil }}
	go func() { ended <- e.Run(context.Background(), Script{Code: "call('s:t'); for (;;);"}, host, Options{}) }()
	<-began
	if err := e.Close(); err != nil || e.Mapped() != 0 {
		t.Errorf("%v, %d bytes are left", err, e.Mapped())
	}
	if o := <-ended; o.Err == nil {
		t.Error("the script has ended well")
	}
}
