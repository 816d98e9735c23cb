package telemetry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func openLog(t *testing.T, o config.AccessLog) *AccessLog {
	t.Helper()
	l, err := OpenAccessLog(config.Config{Router: config.Router{AccessLog: o}}, new(Mask), zap.NewNop())
	expect.OK(t, err)
	t.Cleanup(func() { l.Close(t.Context()) })
	return l
}

// lines returns the lines of the files, which must be JSON.
func lines(t *testing.T, files ...string) (all []map[string]any) {
	t.Helper()
	for _, file := range files {
		f, err := os.Open(file)
		expect.OK(t, err)
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var line map[string]any
			expect.OK(t, json.Unmarshal(s.Bytes(), &line), "%s: %q", file, s.Text())
			all = append(all, line)
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	}
	return all
}

func TestAccessLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "b", "access.log")
	for _, tt := range []struct {
		options config.AccessLog
		e       selector.Execution
		want    string
	}{
		{config.AccessLog{}, selector.Execution{Tool: tool("s", "t"), Answered: tool("other", "u"), Client: "claude \"x\"\n", Trace: "abc", Took: 1500 * time.Microsecond,
			Attempts: 2, Outcome: execute.OK, Arguments: []byte(`{"a":1}`), Result: []byte(`{"b":22}`), Cached: true},
			`{"time":"2026-01-02T03:04:05Z","trace_id":"abc","client":"claude \"x\"\n","server":"s","tool":"t","answered_by":"other:u","outcome":"ok","latency_ms":1.5,"attempts":2,"bytes_in":7,"bytes_out":8,"cached":true}`},
		{config.AccessLog{Arguments: true, Results: true}, selector.Execution{Tool: tool("", "find_tools"), Trace: "abc", Outcome: execute.Outcome("server_error"),
			Fault: "no: Bearer abcdefghijk", Arguments: []byte("{\n\"secret\": \"x\"}"), Result: []byte(`{"text":"https://me:pw@host"}`)},
			`{"time":"2026-01-02T03:04:05Z","trace_id":"abc","server":"metarouter","tool":"find_tools","outcome":"server_error","fault":"no: ***","latency_ms":0,"attempts":0,"bytes_in":16,"bytes_out":29,"arguments":{"secret":"***"},"result":{"text":"https://***@host"}}`},
		{config.AccessLog{}, selector.Execution{Tool: tool("s", "t"), Principal: "ci", Profile: "play+work", Script: "run", Outcome: execute.OK},
			`{"time":"2026-01-02T03:04:05Z","trace_id":"","principal":"ci","profile":"play+work","script":"run","server":"s","tool":"t","outcome":"ok","latency_ms":0,"attempts":0,"bytes_in":0,"bytes_out":0}`},
		{config.AccessLog{}, selector.Execution{Tool: tool("s", "t"), Outcome: execute.InvalidArguments, Fault: "arguments.pin: '1234' does not match pattern '^x'", Arguments: []byte(`{}`)},
			`{"time":"2026-01-02T03:04:05Z","trace_id":"","server":"s","tool":"t","outcome":"invalid_arguments","fault":"arguments.pin","latency_ms":0,"attempts":0,"bytes_in":2,"bytes_out":0}`},
		{config.AccessLog{Arguments: true, Results: true}, selector.Execution{Tool: tool("s", "t"), Outcome: execute.Outcome("cancelled"), Arguments: []byte("{broken")},
			`{"time":"2026-01-02T03:04:05Z","trace_id":"","server":"s","tool":"t","outcome":"cancelled","latency_ms":0,"attempts":0,"bytes_in":7,"bytes_out":0,"arguments":null}`},
	} {
		tt.options.File, tt.options.MaxSize, tt.options.MaxFiles = file, 1<<20, 2
		tt.e.Began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		l := openLog(t, tt.options)
		l.Executed(tt.e)
		l.Close(t.Context())
		l.Executed(tt.e) // not logged
		expect.Equal(t, l.Dropped(), 0, "lines were dropped")
		written, err := os.ReadFile(file)
		if err != nil || string(written) != tt.want+"\n" {
			t.Errorf("got  %s, %v\nwant %s", written, err, tt.want)
		}
		if info, _ := os.Stat(file); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("the file's mode is %o", info.Mode())
		}
		os.Remove(file)
	}
}

// Many calls at once, several processes with the same file and many rotations lose no
// line and tear no line.
func TestAccessLogRotates(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that another process has open can't be renamed there, and goes on")
	}
	const writers, each = 8, 100
	file := filepath.Join(t.TempDir(), "access.log")
	o := config.AccessLog{File: file, MaxSize: 16 << 10, MaxFiles: 1000}
	logs := []*AccessLog{openLog(t, o), openLog(t, o)}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				logs[w%2].Executed(selector.Execution{Tool: tool("s", "t"), Trace: fmt.Sprint(w, "-", i), Outcome: execute.OK})
			}
		})
	}
	writing.Wait()
	for _, l := range logs {
		l.Close(t.Context())
	}
	files, err := filepath.Glob(file + "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %q, %v", files, err)
	}
	dropped := int(logs[0].Dropped() + logs[1].Dropped())
	seen := make(map[any]bool)
	for _, line := range lines(t, files...) {
		if seen[line["trace_id"]] {
			t.Errorf("%v is there twice", line["trace_id"])
		}
		seen[line["trace_id"]] = true
	}
	expect.Equal(t, len(seen)+dropped, writers*each, "%d lines are there and %d were dropped", len(seen), dropped)
	for _, name := range files {
		if info, _ := os.Stat(name); info.Size() > 3*o.MaxSize { // each may add its gathered lines
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
}

// A file that can't be opened is reported at once, lines that can't be written are counted.
func TestAccessLogFails(t *testing.T) {
	folder := t.TempDir()
	c := config.Config{Router: config.Router{AccessLog: config.AccessLog{File: folder, MaxSize: 100, MaxFiles: 2}}}
	_, err := OpenAccessLog(c, new(Mask), zap.NewNop())
	expect.Error(t, err, "metarouter.accessLog: open "+folder)
	if CanWrite(c) == nil {
		t.Error("a folder can be written to")
	}
	expect.OK(t, CanWrite(config.Config{}), "no log can't be written to")
	file := filepath.Join(folder, "log")
	l := openLog(t, config.AccessLog{File: file, MaxSize: 100, MaxFiles: 2})
	if runtime.GOOS == "windows" {
		return // an open file can't be removed
	}
	expect.OK(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)))
	for range 3 {
		l.Executed(selector.Execution{Tool: tool("s", "t")})
	}
	l.Close(context.Background())
	expect.Equal(t, l.Dropped(), 3, "lines were dropped")
}

// An edit of "accessLog" goes on with another file, and loses no line. A file that can't be
// opened leaves the log as it was.
func TestAccessLogIsEdited(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.log"), filepath.Join(dir, "second.log")
	c := func(file string) config.Config {
		return config.Config{Router: config.Router{AccessLog: config.AccessLog{File: file, MaxSize: 1 << 20, MaxFiles: 2}}}
	}
	mask := new(Mask)
	l, err := OpenAccessLog(config.Config{}, mask, zap.NewNop())
	expect.OK(t, err)
	call := func() {
		l.Executed(selector.Execution{Tool: tool("s", "t"), Outcome: execute.OK, Fault: "secret-1 token-1 token-2"})
	}
	call() // not logged
	l.Edit(c(first))
	call()
	l.Edit(c(first))
	call()
	l.Edit(c(filepath.Join(first, "no folder")))
	call()
	mask.Add([]string{"secret-1"})
	mask.AddToken("token-1")
	l.Edit(c(second))
	mask.AddToken("token-2")
	call()
	l.Edit(config.Config{})
	call() // not logged
	l.Close(t.Context())
	expect.Equal(t, lines(t, second)[0]["fault"], "*** *** ***", "the edited log")
	if a, b := len(lines(t, first)), len(lines(t, second)); a != 3 || b != 1 || l.Dropped() != 0 {
		t.Errorf("%d and %d lines, want 3 and 1; %d are dropped", a, b, l.Dropped())
	}
}
