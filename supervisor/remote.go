package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// endTimeout bounds the request that tells a server that a session is over.
	endTimeout = 5 * time.Second

	// asideTimeout bounds the sending of what nobody waits for.
	asideTimeout = 30 * time.Second

	// initialized is the notification that ends a legacy handshake.
	initialized = "notifications/initialized"

	discover   = "server/discover"
	initialize = "initialize"
)

// A remote is a link to a server that is reached over HTTP. It lives until end.
type remote interface {
	link

	// end tells the server that the session is over, if that can be told, and
	// aborts what is under way. The session has ended by then.
	end()
}

// dial reaches for the remote server of the entry.
func (s *server) dial(ctx context.Context, entry config.Server, known traits) (*instance, error) {
	site, err := newSite(entry, s.v.options.Version)
	if err != nil {
		return nil, &notFoundError{err}
	}
	in := s.newInstance(entry)
	in.transport = transport(entry, known)
	var l remote
	if in.transport == config.SSE {
		if l, err = openEventLink(ctx, in.peer, site, s.log); err != nil {
			in.close(err)
			in.owned.Wait()
			site.close()
			return nil, err
		}
	} else {
		l = newStreamable(in.peer, site, s.log)
	}
	s.own.Go(func() { s.liveRemote(in, l, site) })
	return in, nil
}

// liveRemote waits for the end of the session and clears away what it leaves.
func (s *server) liveRemote(in *instance, l remote, site *site) {
	defer close(in.done)
	<-in.closed
	in.err = in.cause
	l.end()
	in.owned.Wait()
	site.close()
}

// transport returns how the server of the entry is reached, so far as is known.
func transport(entry config.Server, known traits) config.Transport {
	switch {
	case entry.Transport != config.AutoHTTP:
		return entry.Transport
	case known.Transport == config.SSE:
		return config.SSE
	}
	return config.StreamableHTTP
}

// other returns the transport to try after err with an entry that leaves it open.
// "400 Bad Request, 404 Not Found, or 405 Method Not Allowed" are how servers of
// one transport answer the other (2026-07-28, transports/streamable-http).
func other(entry config.Server, tried config.Transport, err error) (config.Transport, bool) {
	switch {
	case entry.Transport != config.AutoHTTP || !notHere(err):
		return "", false
	case tried == config.SSE:
		return config.StreamableHTTP, true
	}
	return config.SSE, true
}

// notHere reports whether err says that there is no server of this transport or
// era at the url.
func notHere(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.status == 400 || e.status == 404 || e.status == 405)
}

// spawn runs f as part of the session, which is over only when f has returned.
// It reports whether there still is a session.
func (p *peer) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return false // and nobody may be added to owned
	}
	p.owned.Go(f)
	return true
}

// each calls f for each message in data, which holds one or a batch of them. What
// is no message is skipped.
func (p *peer) each(data []byte, f func(wire.Message) error) {
	if wire.HasLineEnd(data) { // they would end a line elsewhere
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			p.skip(data, err)
			return
		}
		data = compact.Bytes()
	}
	take := func(one []byte) {
		m, err := wire.Parse(one)
		if err == nil {
			err = f(m)
		}
		if err != nil {
			p.skip(one, err)
		}
	}
	batch := bytes.TrimSpace(data)
	if len(batch) == 0 || batch[0] != '[' {
		take(data)
		return
	}
	n := 0
	if err := wire.Elements(batch, func(one []byte) bool {
		take(one)
		n++
		return n < maxBatch
	}); err != nil {
		p.skip(nil, err)
	} else if n == maxBatch {
		p.skip(nil, fmt.Errorf("what follows %d messages in one batch", maxBatch))
	}
}

// maxBatch bounds the messages that are taken of a batch.
const maxBatch = 1000

var errTooLong = fmt.Errorf("the answer is longer than %d MiB", wire.MaxLine>>20)
