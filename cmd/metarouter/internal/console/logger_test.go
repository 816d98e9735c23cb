package console

import (
	"io"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A logger writes the lines of its level, and of those that others want.
func TestLogger(t *testing.T) {
	c := New(strings.NewReader(""), io.Discard, io.Discard)
	for _, wanted := range []func(zapcore.Level) bool{nil, func(l zapcore.Level) bool { return l == zapcore.DebugLevel }} {
		log, err := c.Logger(zapcore.ErrorLevel, wanted)
		expect.OK(t, err)
		is := log.Core().Enabled
		expect.List(t, []bool{is(zapcore.DebugLevel), is(zapcore.InfoLevel), is(zapcore.ErrorLevel)}, []bool{wanted != nil, false, true})
	}
}
