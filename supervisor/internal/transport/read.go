package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// Read hands the messages in r to the session until r ends, and returns why, [io.EOF] at the end. It expects a message a line, and
// also understands a message in several lines, several in a line, a byte order mark, text
// before the first message, which may stand before each, and the headers of the Language Server
// Protocol, in which the server is then answered.
func (l *Lines) Read(r io.Reader) error {
	lines := wire.NewReader(&opening{r: r, begun: l.begun}, wire.MaxLine)
	lines.Objects = true // until a line was a message
	for {
		l.conn.Budget.Pace(l.conn.Done())
		line, err := lines.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong):
			l.conn.SkipLine(nil, lines.Skipped(), err)
			continue
		case err != nil:
			return err
		}
		if rest, marked := bytes.CutPrefix(line, wire.BOM); marked {
			l.conn.Budget.Note("writes a byte order mark")
			line = rest
		}
		if l.banner != nil {
			line = line[len(l.banner.Find(line)):]
		}
		if wire.IsArray(line) && wire.Valid(line) && bytes.Contains(line, []byte(`"jsonrpc"`)) {
			receiveAll(l.conn, line, func(m wire.Message) error { return l.conn.Receive(m, 0) })
			l.conn.Budget.Note("writes messages in arrays")
			continue
		}
		m, err := wire.Parse(line)
		if err == nil {
			if lines.Objects {
				if note, odd := shapeNotes[lines.Shape]; odd && !l.framed.Load() {
					l.conn.Budget.Note(note)
				}
				wire.OneLine(line) // clients get parts of it in a line
			}
			err = l.conn.Receive(m, 0)
		}
		switch {
		case err == nil:
			lines.Objects = lines.Objects && lines.Shape != wire.Line
		case !lines.Objects && isPart(line):
			l.conn.Doubt(line, err)
			lines.Again(line)
			lines.Objects = true
		case !lines.Objects || !l.understand(line):
			l.conn.SkipLine(line, wire.Ends{Head: line, Tail: line}, err)
			if at := bytes.Index(line, []byte(`{"`)); at > 0 {
				l.conn.Doubt(line[at:], err) // a text, and perhaps an answer
			}
		}
	}
}

// shapeNotes are for messages that are not one line.
var shapeNotes = map[wire.Shape]string{wire.Indented: "writes messages over several lines", wire.Part: "writes more than one message in a line"}

// isPart reports whether a line is the beginning of an object, or has more after one.
func isPart(line []byte) bool {
	var object wire.Brackets
	return object.Count(line) < len(line) && object.Closed() || object.Open()
}

// maxBanner bounds the text before the first message that has no line end, in bytes.
const maxBanner = 4 << 10

// understand acts on the bytes before the first message: a header, or the first message after
// a text. It reports whether the line was one. After the first message, no other text is searched for
// messages, since it may hold texts of others.
func (l *Lines) understand(line []byte) bool {
	if (l.framed.Load() || !l.conn.Spoke.Load()) && endsWithHeader(line) {
		if !l.framed.Swap(true) {
			l.conn.Budget.Note("writes Content-Length headers, as the Language Server Protocol does")
		}
		return true
	}
	if l.framed.Load() && bytes.HasPrefix(bytes.ToLower(line), []byte("content-type:")) {
		return true
	}
	if l.conn.Spoke.Load() {
		return false
	}
	const most = 8 // braces in the text
	at := 0
	for range most {
		next := bytes.IndexByte(line[at:min(len(line), maxBanner)], '{')
		if next < 0 {
			return false
		}
		at += next
		if m, err := wire.Parse(bytes.Clone(line[at:])); err == nil && m.IsResponse() && m.Version != nil && l.conn.Receive(m, 0) == nil {
			l.conn.Budget.Note("writes text before its first message")
			l.banner = likeBanner(line[:at])
			return true
		}
		at++
	}
	return false
}

// number matches numbers and times in a quoted pattern: they may differ from one text before a message to the next, as blanks may.
var number, blanks = lazy.Regexp(`(?:[\w:,-]|\\[.+])*\d(?:[\w:,-]|\\[.+])*`), lazy.Regexp(`\s+`)

// likeBanner returns a pattern for a text at the beginning of a line, and the same one with other times, numbers and blanks.
func likeBanner(text []byte) *regexp.Regexp {
	pattern := regexp.QuoteMeta(string([]rune(string(text))))
	pattern = number().ReplaceAllLiteralString(pattern, `[\w.:,+-]+`)
	pattern = blanks().ReplaceAllLiteralString(pattern, `\s+`)
	return regexp.MustCompile("^" + strings.ReplaceAll(pattern, "\uFFFD", ".")) // for bytes that are not UTF-8
}

// endsWithHeader reports whether a line is a header with the length of a message, or such a header
// follows a text.
func endsWithHeader(line []byte) bool {
	name := []byte("content-length:")
	tail := bytes.ToLower(line[max(0, len(line)-len(name)-20):])
	at := bytes.LastIndex(tail, name)
	if at < 0 {
		return false
	}
	_, err := strconv.ParseUint(string(bytes.TrimSpace(tail[at+len(name):])), 10, 32)
	return err == nil
}

// frame gives a message the header that the server wants. Its caller has the turn.
func (l *Lines) frame(o *peer.Outgoing) {
	if l.framed.Load() {
		body := bytes.TrimSuffix(o.Line, []byte("\n"))
		o.Line = append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
	}
}

// textTime is how long a server may take to send a message after it has begun to write.
const textTime = 2 * time.Second

// jsonBegins matches the possible beginning of an object, or of a list of objects.
var jsonBegins = lazy.Regexp(`^(\[\s*)?\{\s*(["}]|$)`)

// begun waits for the first message of a server that has begun to write, and reports the text
// that comes instead.
func (l *Lines) begun(first func() []byte) {
	l.conn.Go(func() {
		if signal.Within(l.conn.Done(), textTime) || l.conn.Spoke.Load() {
			return
		}
		text := bytes.TrimSpace(bytes.TrimPrefix(first(), wire.BOM))
		if len(text) == 0 || jsonBegins().Match(text) { // a log in JSON, or a message that goes on
			return
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		l.conn.OnlyText(string(bytes.TrimSpace(line)))
	})
}

// An opening is a stream that keeps its first bytes.
type opening struct {
	r     io.Reader
	begun func(first func() []byte) // called at the first bytes

	mu   sync.Mutex // guards kept
	kept []byte
}

const maxOpening = 200 // bytes

// Read implements [io.Reader].
func (o *opening) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if before := len(o.kept); before < maxOpening && n > 0 {
		o.kept = append(o.kept, p[:min(n, maxOpening-before)]...)
		if before == 0 {
			o.begun(o.first)
		}
	}
	return n, err
}

func (o *opening) first() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.kept)
}
