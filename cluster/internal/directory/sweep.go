package directory

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"crypto/ed25519"

	"github.com/nats-io/nats.go/jetstream"
)

// sweep removes the definitions that no announcement refers to and that were put more than a day
// ago. Nodes put theirs three times a day. It returns how many pieces it removed.
func (d *Directory) sweep(ctx context.Context, now time.Time) (removed int, err error) {
	b, err := d.ready(ctx)
	if err != nil {
		return 0, err
	}
	referred := map[string]bool{}
	err = list(ctx, b.nodes, func(e jetstream.KeyValueEntry) {
		for _, sum := range references(e.Value()) {
			referred[sum] = true
		}
	})
	if err != nil {
		return 0, err
	}
	revisions := map[string]uint64{}
	err = list(ctx, b.definitions, func(e jetstream.KeyValueEntry) {
		sum, _, _ := strings.Cut(e.Key(), ".")
		if now.Sub(e.Created()) > old && !referred[sum] {
			revisions[e.Key()] = e.Revision()
		}
	}, jetstream.MetaOnly())
	if err != nil {
		return 0, err
	}
	for key, revision := range revisions {
		// Not if it was put again meanwhile.
		err := purge(ctx, b.definitions, key, revision)
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			continue
		}
		if err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

func purge(ctx context.Context, kv jetstream.KeyValue, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(markers))
}

// references returns the hashes to which an announcement of any node refers, trusted or not.
func references(data []byte) (sums []string) {
	at := len(data) - ed25519.SignatureSize
	if at < 2 || len(data) > maxAnnouncement {
		return nil
	}
	text, err := expand(data[2:at], maxExpanded)
	if err != nil {
		return nil
	}
	var a Announcement
	if json.Unmarshal(text, &a) != nil {
		return nil
	}
	for _, s := range a.Servers {
		sums = append(sums, s.Definitions.Sum)
	}
	return sums
}

// list calls f with all entries of a bucket.
func list(ctx context.Context, kv jetstream.KeyValue, f func(jetstream.KeyValueEntry), options ...jetstream.WatchOpt) error {
	ctx, cancel := context.WithTimeout(ctx, 4*try)
	defer cancel()
	w, err := kv.WatchAll(ctx, append(options, jetstream.IgnoreDeletes())...)
	if err != nil {
		return err
	}
	defer stop(w)
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return errWatchEnded
			}
			if e == nil {
				return nil
			}
			f(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
