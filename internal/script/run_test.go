package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestLostCallEndsTheScript(t *testing.T) {
	host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
		if c.Tool == "s:lost" {
			return nil, fmt.Errorf("call: %w", &Lost{Tool: c.Tool, Err: errors.New("the router was killed")})
		}
		<-ctx.Done() // the script's end cancels it
		return nil, ctx.Err()
	}}
	o := engine.Run(t.Context(), Script{Code: "const other = call('s:other');\ntry { await call('s:lost') } catch {}\nreturn 1"}, host, Options{})
	if o.Err == nil || o.Err.Name != "LostError" || o.Err.Line != 2 || o.Err.Message != "the result of s:lost was lost, so that its effect is unknown: the router was killed" {
		t.Errorf("%+v", o.Err)
	}
}

// TestAnswersAtTheEnd: a call that ended well counts as made, although the script did not get its answer. Of one that the end
// has cancelled, the effect is not known.
func TestAnswersAtTheEnd(t *testing.T) {
	host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
		<-ctx.Done() // the script's end
		if c.Tool == "s:long" {
			return nil, context.Cause(ctx)
		}
		return json.RawMessage(fmt.Sprintf(`{"isError":%t}`, c.Tool == "s:fails")), nil
	}}
	for _, end := range []string{"throw 1", "for (let i = 0; i < 98; i++) call('s:fails')"} {
		o := engine.Run(t.Context(), Script{Code: "call('s:t'); call('s:fails'); call('s:long')\n" + end}, host, Options{})
		const effects = "\nThese calls took effect:\nline 1: s:t\nThese were under way at the end, and it is not known whether they took effect:\nline 1: s:long"
		if o.Err == nil || !strings.HasSuffix(o.Failure(), effects) {
			t.Errorf("%+v: %s", o.Err, o.Failure())
		}
	}
}

// TestPanic: the panic of a call is one of its script's, which leaves nothing.
func TestPanic(t *testing.T) {
	host := fakeHost{call: func(ctx context.Context, c Call) (json.RawMessage, error) {
		if c.Tool == "s:last" {
			<-ctx.Done()
		}
		panic("no " + c.Tool)
	}}
	for _, code := range []string{"await call('s:t')", "call('s:last'); throw 1"} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "no s:") || engine.Mapped() != 0 {
					t.Errorf("%s: %s, %d bytes are left", code, p, engine.Mapped())
				}
			}()
			t.Error(engine.Run(t.Context(), Script{Code: code}, host, Options{}))
		}()
	}
	if e := engine.Compile(t.Context(), "1)}); call('s:t'); (async () => {return (1"); e == nil || e.Name != "SyntaxError" {
		t.Errorf("code that runs when it is compiled: %v", e)
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

// A script that waits for a person keeps its memory.
func TestMemoryWhileWaiting(t *testing.T) {
	e := New(engine.cacheDir)
	defer e.Close()
	const memory = 2 * moreMemory // two scripts do not fit, each with three quarters of it
	fill := "const a = new Uint8Array(" + fmt.Sprint(memory/4*3) + ").fill(1); await call('s:asks'); return a.length"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
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
	var waiting sync.WaitGroup
	waiting.Go(func() { e.Run(ctx, Script{Code: fill}, host, options) })
	<-waits
	for _, fits := range []bool{false, true} {
		other := e.Run(t.Context(), Script{Code: strings.Replace(fill, "s:asks", "s:t", 1)}, host, Options{Limits: Limits{Memory: memory}})
		expect.Equal(t, other.Err == nil, fits, "the other one fits: %v", other.Err)
		cancel()
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
