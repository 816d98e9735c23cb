package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An environment is what a subcommand works with: the streams and the command line of
// the process, and the flags that subcommands share.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer // clean what is written as package plain does; stderr is a [terminal.Screen] where progress can be shown
	raw            io.Writer // stdout as it is, for messages of the protocol and for results that a program reads

	args    []string // the command line after the program's name
	streams [3]any   // stdin, stdout and stderr as this process was started with them

	configs    []string // --config
	data       string   // --data
	logLevel   string   // --log-level
	json       bool     // --json
	standalone bool     // --standalone
	debug      bool     // --debug
	profile    *string  // --profile; nil if it is not given

	guard *supervisor.GuardProcess // was started for the router of this process; nil if it was not

	noQuestions bool    // stdin is not for answers
	input       string  // the value of --args once it is read, for a router that carries out the command
	agreed      string  // the question about the call to which the person has agreed, likewise
	running     *hosted // set in a router that carries out the command of another process
}

// A hosted is the running router that carries out a command.
type hosted struct {
	router *adapter.Parts
	edits  *edits
	mode   string                                // in which it shows its tools: server.Direct or server.Search
	costs  func(*adapter.Parts) []telemetry.Cost // of clients, in tokens

	columns int  // of the terminal of the process that asks; 0 for no limit
	colours bool // whether that terminal shows colours

	asks     bool   // that process can ask its person about the call
	agreed   string // the question to which that person has agreed
	question string // that the person is to be asked; "" for none
}

func defaultData() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "metarouter")
}

// setOutput sets the streams to which the command writes, so that they clean text.
func (env *environment) setOutput(stdout, stderr io.Writer) {
	env.raw, env.stdout, env.stderr = stdout, plain.NewWriter(stdout, nil), plain.NewWriter(stderr, nil)
	if _, colours := env.page(); colours {
		env.stdout = plain.NewWriter(stdout, terminal.IsPaint)
	}
	if screen, ok := terminal.Open(stderr, os.Getenv); ok {
		env.stderr = screen
	}
}

// results returns where results of tools are written: to a person as text, to a program as
// the server's bytes.
func (env *environment) results() io.Writer {
	if isTerminal(env.streams[1]) {
		return env.stdout
	}
	return env.raw
}

// printJSON prints v on stdout, with < and > as they are. Control characters and hidden ones
// are escaped.
func (env *environment) printJSON(v any) error {
	e := json.NewEncoder(plain.NewEscaper(env.raw))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// A table is printed in aligned columns.
type table struct{ w *tabwriter.Writer }

// row adds a row. Each cell is cleaned, so that its text adds no row or column.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = plain.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// printTable prints the rows that write writes, in aligned columns on stdout.
func (env *environment) printTable(write func(table)) error {
	w := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
	write(table{w})
	return w.Flush()
}

// say prints a line on stdout: the arguments can add no other.
func (env *environment) say(format string, args ...any) {
	fmt.Fprintln(env.stdout, plain.Line(fmt.Sprintf(format, args...)))
}

// note prints a line on stderr: the arguments can add no other.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintln(env.stderr, plain.Line(fmt.Sprintf(format, args...)))
}

// printRows prints the rows in aligned columns on stdout, on a terminal as wide as that is.
// below returns the lines that belong below a row; nil if there are none.
func (env *environment) printRows(rows []terminal.Row, below func(row int) string) error {
	columns, colours := env.page()
	for i, line := range terminal.Table(rows, columns, 0, colours) {
		if below != nil {
			line += "\n" + strings.TrimSuffix(below(i), "\n")
			line = strings.TrimSuffix(line, "\n")
		}
		if _, err := fmt.Fprintln(env.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// page returns how many columns stdout has and whether it shows colours. If stdout is
// not a terminal, the number of columns is 0 for no limit.
func (env *environment) page() (columns int, colours bool) {
	if env.running != nil {
		return env.running.columns, env.running.colours
	}
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
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(zapcore.AddSync(plain.NewEscaper(env.stderr))), level)
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
