package daemon

import (
	"io"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Each client gets the lines of its own level, also those from before it came.
func TestLogLevels(t *testing.T) {
	const debug, info, other = "12:00:00.000\tDEBUG\tread\n", "12:00:00.000\tINFO\tready\n", "goroutine 1\n"
	for level, want := range map[string]string{"debug": debug + info + other, "": info + other, "info": info + other, "error": other} {
		var log Log
		io.WriteString(&log, debug+info)
		r, w := io.Pipe()
		stop := log.To(w, Client{LogLevel: level}.Level())
		io.WriteString(&log, other)
		got := make([]byte, len(want))
		_, err := io.ReadFull(r, got)
		expect.OK(t, err)
		expect.Equal(t, string(got), want, "the lines of level %q", level)
		stop()
	}
}

// Lines are wanted of the least severe level that anybody still wants, in whatever order they leave.
func TestLogWanted(t *testing.T) {
	var log Log
	var got []bool
	for _, stop := range []func(){log.To(io.Discard, zapcore.InfoLevel), log.To(io.Discard, zapcore.DebugLevel), log.To(io.Discard, zapcore.DebugLevel)} {
		got = append(got, log.Wanted(zapcore.DebugLevel))
		stop()
	}
	expect.List(t, append(got, log.Wanted(zapcore.ErrorLevel)), []bool{true, true, true, false})
}
