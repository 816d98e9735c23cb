// Package console is how commands print to the streams of the process, and ask the person at its
// terminal. All that is printed is cleaned as package plain does.
//
// An [Error] carries the exit code of the program.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A Console is the streams of a command, and how it prints on them.
type Console struct {
	In       io.Reader
	Out, Err io.Writer // clean their input
	Raw      io.Writer // stdout as it is, for messages of the protocol and for results that a program reads
	Streams  [3]any    // stdin, stdout and stderr as the process has them

	JSON        bool   // answers are printed as JSON
	LogLevel    string // of [Console.Logger]; "" for the command's own
	NoQuestions bool   // stdin is not for answers

	Advise func(text string) string // adds flags to the commands in notes and fixes; by default none

	written *checked // stdout
}

// New returns the console of this process.
func New(stdin io.Reader, stdout, stderr io.Writer) *Console {
	c := &Console{In: stdin, Streams: [...]any{stdin, stdout, stderr}, Advise: func(text string) string { return text }}
	if f, ok := stdout.(*os.File); ok {
		stdout = pipe.Inherited(f)
	}
	c.written = &checked{w: stdout}
	c.Raw, c.Out, c.Err = c.written, plain.NewWriter(c.written, nil), plain.NewWriter(stderr, nil)
	if _, colours := c.Page(); colours {
		c.Out = plain.NewWriter(c.written, IsPaint)
	}
	return c
}

// checked is a writer that remembers its first error.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// Fault returns the first error of a write to stdout.
func (c *Console) Fault() error { return c.written.err }

// HasReader reports whether a process reads stdout, as far as that is known.
func (c *Console) HasReader() bool {
	w, tells := c.written.w.(interface{ HasReader() bool })
	return !tells || w.HasReader()
}

// Results returns where results of tools are written: to a person as text, without our own control sequences too, and to a
// program as the server's bytes.
func (c *Console) Results() io.Writer {
	if IsTerminal(c.Streams[1]) {
		return plain.NewWriter(c.written, nil)
	}
	return c.Raw
}

// PrintJSON prints v on stdout, with < and > as they are. Control characters and hidden ones
// are escaped.
func (c *Console) PrintJSON(v any) error {
	e := json.NewEncoder(plain.NewEscaper(c.Raw))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Titles returns a row of titles of columns. A title begins with ">" if its column is aligned to the right, and with
// "?" before that if the column is spare.
func Titles(titles ...string) Row {
	row := make(Row, len(titles))
	for i, title := range titles {
		title, spare := strings.CutPrefix(title, "?")
		title, right := strings.CutPrefix(title, ">")
		row[i] = Cell{Text: title, Colour: Bold, Right: right, Spare: spare}
	}
	return row
}

// Texts returns a row of values as they are.
func Texts(values ...any) Row {
	row := make(Row, len(values))
	for i, v := range values {
		row[i].Text = fmt.Sprint(v)
	}
	return row
}

// PrintRows prints the rows in aligned columns on stdout, on a terminal as wide as that is.
// below returns a text that belongs below a row, broken as by [Console.SayBroken]; "" is none. It may be nil.
func (c *Console) PrintRows(rows []Row, below func(row int) (lead, text string)) error {
	columns, colours := c.Page()
	for i, line := range Table(rows, columns, colours) {
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
		if below == nil {
			continue
		}
		if lead, text := below(i); text != "" {
			c.SayBroken(lead, text)
		}
	}
	return nil
}

// Say prints a line on stdout: the arguments can add no other.
func (c *Console) Say(format string, args ...any) {
	fmt.Fprintln(c.Out, plain.Line(fmt.Sprintf(format, args...)))
}

// SayBroken prints a text on stdout, broken into lines as wide as that is: the first line begins with lead, and the others are
// indented by its width.
func (c *Console) SayBroken(lead, text string) {
	columns, _ := c.Page()
	fmt.Fprintln(c.Out, strings.Join(hang(lead, text, columns), "\n"))
}

// Note prints a line on stderr: the arguments can add no other.
func (c *Console) Note(format string, args ...any) {
	fmt.Fprintln(c.Err, plain.Line(c.Advise(fmt.Sprintf(format, args...))))
}

// Page returns how many columns stdout has and whether it shows colours: "when [NO_COLOR is] present and not an empty
// string (regardless of its value)" it does not (https://no-color.org). If stdout is not a terminal, or one that can only print lines
// (TERM=dumb), the number of columns is 0 for no limit.
func (c *Console) Page() (columns int, colours bool) {
	f, ok := c.Streams[1].(*os.File)
	if !ok || !IsTerminal(f) || isPlain(f, os.Getenv) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 {
		columns = 80
	}
	return columns, os.Getenv("NO_COLOR") == ""
}

// Logger returns a logger to stderr of LogLevel, else of the given level, and of the levels that others want; nil without any.
func (c *Console) Logger(level zapcore.Level, wanted func(zapcore.Level) bool) (*zap.Logger, error) {
	if c.LogLevel != "" {
		var err error
		if level, err = zapcore.ParseLevel(c.LogLevel); err != nil {
			return nil, Usage(fmt.Errorf("--log-level %q is unknown; write debug, info, warn or error", c.LogLevel))
		}
	}
	encoding := zap.NewDevelopmentEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly + ".000")
	enabled := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l >= level || wanted != nil && wanted(l) })
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(zapcore.AddSync(plain.NewEscaper(c.Err))), enabled)
	return zap.New(core), nil
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// CanAsk reports whether a person at a terminal can be asked.
func (c *Console) CanAsk() bool {
	return !c.NoQuestions && IsTerminal(c.Streams[0]) && IsTerminal(c.Streams[2])
}

// ReadLine drops earlier input of the terminal, calls question, and returns the line that the person types then, if [Console.CanAsk].
// If ctx ends first, it returns ctx's cause; on Windows, a goroutine goes on reading then, and the program must end.
func (c *Console) ReadLine(ctx context.Context, question func()) (string, error) {
	return readLine(ctx, c.Streams[0].(*os.File), question)
}

// Confirm asks the person at the terminal a question, if [Console.CanAsk], and reports whether the
// answer is yes.
func (c *Console) Confirm(ctx context.Context, question string) (yes bool, err error) {
	line, err := c.ReadLine(ctx, func() {
		fmt.Fprintln(c.Err, question) // it ends its line, since log lines may follow before the answer
	})
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y"), err
}

// ReadHidden reads a line from the terminal without echo, if [Console.CanAsk]. When ctx ends, the
// terminal is as before, and the read is left behind.
func (c *Console) ReadHidden(ctx context.Context, question string) (string, error) {
	fmt.Fprint(c.Err, question)
	defer fmt.Fprintln(c.Err)
	fd := int(c.Streams[0].(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	var text []byte
	select {
	case <-begin(func() { text, err = term.ReadPassword(fd) }):
		return string(text), err
	case <-ctx.Done():
		_ = term.Restore(fd, before)
		return "", Interrupted
	}
}

// Counted returns "no problem", "1 problem" or "2 problems".
func Counted(n int, noun string) string {
	if n == 0 {
		return "no " + noun
	}
	return prose.Count(n, noun)
}
