package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
)

// An environment is what a subcommand works with: the streams and the command line of
// the process, and the flags that subcommands share.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer // stderr is a [terminal.Screen] where progress can be shown

	args    []string // the command line after the program's name
	streams [3]any   // stdin, stdout and stderr as this process was started with them

	configs    []string // --config
	data       string   // --data
	logLevel   string   // --log-level
	json       bool     // --json
	standalone bool     // --standalone
	debug      bool     // --debug

	input   string  // the value of --args once it is read, for a router that carries out the command
	running *hosted // set in a router that carries out the command of another process
}

// A hosted is the running router that carries out a command.
type hosted struct {
	router *adapter.Parts
	mode   string // in which it shows its tools: server.Direct or server.Search
}

func defaultData() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "metarouter")
}

// printJSON prints v on stdout, with < and > as they are.
func (env *environment) printJSON(v any) error {
	e := json.NewEncoder(env.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printTable prints the rows that write writes, in aligned columns on stdout.
func (env *environment) printTable(write func(*tabwriter.Writer)) error {
	w := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	write(w)
	return w.Flush()
}

// note prints a line on stderr, without characters that move the cursor.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintln(env.stderr, terminal.Printable(fmt.Sprintf(format, args...)))
}

// page returns how many columns stdout has and whether it shows colours. If stdout is
// not a terminal, the number of columns is 0 for no limit.
func (env *environment) page() (columns int, colours bool) {
	if screen, ok := terminal.Open(env.streams[1], os.Getenv); ok {
		return screen.Width(), screen.Colours()
	}
	return 0, false
}

// newLogger returns a logger to stderr of the level of --log-level, else the given one.
func (env *environment) newLogger(level zapcore.Level) (*zap.Logger, error) {
	if env.logLevel != "" {
		var err error
		if level, err = zapcore.ParseLevel(env.logLevel); err != nil {
			return nil, usage(fmt.Errorf("--log-level %q is unknown; write debug, info, warn or error", env.logLevel))
		}
	}
	encoding := zap.NewDevelopmentEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly + ".000")
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(zapcore.AddSync(env.stderr)), level)
	return zap.New(core), nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	if _, ok := stream.(*terminal.Screen); ok {
		return true
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
