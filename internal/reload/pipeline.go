// Package reload sends a new configuration when its files are edited. A bad edit changes nothing.
package reload

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

const (
	quiet    = 100 * time.Millisecond // without an event, before the files are read
	maxQuiet = time.Second            // from the first event on, before the files are read
	recheck  = 250 * time.Millisecond // between two looks whether an edit is trusted by now
)

// A Pipeline turns edits of the configuration's files into values for one receiver:
//
//	file watch or signal → read → adjust → trust → skip the value that the receiver has → send
//
// An edit that can't be used, a missing file included, is logged and changes nothing. If the
// first configuration was not read from its files, they need not exist yet. The
// latest reading wins: it replaces one that the receiver has not taken yet. The zero value
// sends nothing.
type Pipeline struct {
	// Watch has the files read again when one of them, or an envFile or a stored script that they name, is
	// edited. Where the system reports no edits, the files are read every two seconds.
	Watch bool

	// Reload has the files read again at each value, such as a SIGHUP.
	Reload <-chan os.Signal

	// Adjust returns a reading as the receiver is to have it, for example with the flags
	// of a command line. It is called with each reading that is trusted; asked says that Reload has asked for it, so that
	// it may differ although the text is the same. nil leaves the reading as it is.
	Adjust func(c config.Config, asked bool) config.Config

	// Trusted returns nil if a reading may be used, else the reason, as [trustfile.Text.Trusted]
	// does; it gets the text as [config.LoadText] reads it. An edit that is not trusted waits until
	// it is, and is checked several times a second. The text that the receiver has is
	// trusted. nil trusts everything.
	Trusted func(config.Config) error

	// Judged is called with the reason why a reading can't be used, which for an edit that
	// waits is the reason of Trusted, or with nil if it can be used. nil if no caller needs it.
	Judged func(error)

	// Sent is called with each configuration that the receiver has taken. nil if no caller
	// needs to know.
	Sent func(config.Config)

	Log *zap.Logger // nil is silence
}

// Run sends each new configuration to out, until ctx ends. first is the value that the receiver has
// already; an edit made since it was loaded is sent too. The error is always nil.
func (p Pipeline) Run(ctx context.Context, first config.Config, out chan<- config.Config) error {
	p.Log = cmp.Or(p.Log, zap.NewNop())
	if p.Judged == nil {
		p.Judged = func(error) {}
	}
	f := feed{Pipeline: p, watcher: new(watcher), out: out, sent: first, latest: first}
	if p.Watch {
		f.watcher = newWatcher(p.Log)
		f.read()
	}
	defer f.watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f.pending <- f.latest: // never while pending is nil; submit sets it
			f.sent, f.pending = f.latest, nil
			if p.Sent != nil {
				p.Sent(f.sent)
			}
		case event := <-f.watcher.Events:
			if f.watcher.Concerns(event) {
				f.disturb()
			}
		case err := <-f.watcher.Errors:
			p.Log.Warn("watching config", zap.Error(err)) // events may be lost
			f.disturb()
		case <-f.settled:
			f.read()
		case <-f.watcher.Poll:
			f.read()
		case <-p.Reload:
			f.complaint, f.asked = "", true
			f.read()
		case <-f.untrusted:
			f.untrusted = time.After(recheck)
			text, err := config.LoadText(f.latest.Files...) // scripts of an edit that waits are not watched
			if err != nil {
				continue // until it can be read again
			}
			if err := f.Trusted(f.waiting); err == nil || text.Text.Digest() != f.waiting.Text.Digest() {
				f.read()
			} else if err.Error() != f.complaint {
				f.refuse(err)
			}
		}
	}
}

// A feed is the state of a pipeline that runs.
type feed struct {
	Pipeline
	watcher *watcher
	out     chan<- config.Config

	sent, latest config.Config
	pending      chan<- config.Config // out, while the receiver lacks latest
	waiting      config.Config        // the text of an edit that waits for trust
	untrusted    <-chan time.Time     // fires while it waits
	complaint    string               // about the text that is in the files now
	asked        bool                 // by Reload, since Adjust was called last

	settled  <-chan time.Time // fires once the files have not changed for a while
	deadline time.Time        // when settled fires at the latest
}

// disturb has the files read once they have not changed for a while.
func (f *feed) disturb() {
	if f.settled == nil {
		f.deadline = time.Now().Add(maxQuiet)
	}
	f.settled = time.After(min(quiet, time.Until(f.deadline)))
}

// read reads the files, and has their value sent if the receiver lacks it. Nothing but the
// files is read before they are trusted.
func (f *feed) read() {
	f.settled = nil
	if f.watcher.Follow(filesOf(f.latest)) { // before reading, so that no edit is missed in between
		f.disturb() // the file may be half written, and no event has said so
		return
	}
	f.waiting, f.untrusted = config.Config{}, nil
	text, err := config.LoadText(f.latest.Files...)
	if errors.Is(err, fs.ErrNotExist) && f.latest.Text.Digest() == (config.Config{}).Text.Digest() {
		f.complaint = ""
		f.Judged(nil)
		return // the receiver has begun without the files, and they do not exist yet
	}
	if err != nil {
		f.refuse(err)
		return
	}
	f.Log.Debug("config read", zap.Int("servers", len(text.Servers)), zap.Int("problems", len(text.Problems)))
	f.pending = nil // the receiver must not get a text that is no longer in the files
	if f.Trusted != nil && text.Text.Digest() != f.sent.Text.Digest() {
		if err := f.Trusted(text); err != nil {
			f.waiting, f.untrusted = text, time.After(recheck)
			f.refuse(err)
			return
		}
	}
	next, err := text.Expand()
	if err != nil {
		f.refuse(err)
		return
	}
	f.complaint = ""
	f.Judged(nil)
	f.submit(next)
}

// refuse says why the text of the files is not used, once for each reason.
func (f *feed) refuse(why error) {
	f.Judged(why)
	if why.Error() != f.complaint {
		f.Log.Warn("the last edit is not in use; the configuration before it stays", zap.Error(why))
	}
	f.complaint = why.Error()
}

// submit has Run send a trusted reading, if the receiver lacks it.
func (f *feed) submit(next config.Config) {
	if f.watcher.Follow(filesOf(next)) {
		f.disturb() // an envFile or a script was read before it was watched
	}
	if f.Adjust != nil {
		next = f.Adjust(next, f.asked)
		f.asked = false
	}
	if f.latest = next; !next.Equal(f.sent) {
		f.pending = f.out
	}
}

// filesOf are all files that c was made of, and those that may become a script.
func filesOf(c config.Config) []string {
	files := slices.Clone(c.Files)
	if folder := c.Router.Scripts.Folder; folder != "" {
		files = append(files, filepath.Join(folder, anyFile))
	}
	for _, s := range c.Servers {
		if s.EnvFile != "" {
			files = append(files, s.EnvFile)
		}
		for _, script := range s.Scripts { // it may be a link
			files = append(files, filepath.Join(c.Router.Scripts.Folder, script.Name+".js"))
		}
	}
	return files
}
