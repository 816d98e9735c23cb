package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// Refresh is the time between two puts of an announcement.
	Refresh = 20 * time.Second

	lifetime = 60 * time.Second // of an announcement that is not put again
	markers  = time.Hour        // how long watchers can learn that a key has expired or was purged
	replicas = 3

	// try limits one request to JetStream. One that comes during the election of a leader, which
	// takes 4 to 10 s, may get no answer at all, so that it is better repeated soon.
	try = 4 * time.Second
)

// buckets are the two key-value buckets of a cluster.
type buckets struct {
	nodes, definitions jetstream.KeyValue
	made               time.Time // when the bucket of the definitions was made
}

// open returns the buckets, and makes those that do not exist.
func (d *Directory) open(ctx context.Context) (*buckets, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*try)
	defer cancel()
	js := d.options.JetStream()
	if js == nil {
		return nil, nats.ErrDisconnected
	}
	if err := checkVersion(js.Conn()); err != nil {
		return nil, err
	}
	b, err := d.openBoth(ctx, js)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		// This request says whether JetStream is off.
		if _, off := js.AccountInfo(ctx); off != nil {
			err = off
		}
	}
	return b, err
}

func (d *Directory) openBoth(ctx context.Context, js jetstream.JetStream) (*buckets, error) {
	prefix := "metarouter-" + d.options.Cluster
	nodes, err := openBucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: prefix + "-nodes", Description: "what the nodes of metarouter share",
		History: 1, TTL: lifetime, LimitMarkerTTL: markers,
	})
	if err != nil {
		return nil, err
	}
	definitions, err := openBucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: prefix + "-definitions", Description: "definitions of servers that nodes of metarouter share, by hash",
		History: 1, LimitMarkerTTL: markers,
	})
	if err != nil {
		return nil, err
	}
	b := &buckets{nodes: nodes, definitions: definitions}
	if s, err := definitions.Status(ctx); err == nil {
		if s, ok := s.(*jetstream.KeyValueBucketStatus); ok {
			b.made = s.StreamInfo().Created
		}
	}
	return b, nil
}

// openBucket returns a bucket, which another node may have made in another way, or makes it: with
// replicas where NATS has so many servers.
func openBucket(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := lookUp(ctx, js, c.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	for _, n := range []int{replicas, 1} {
		c.Replicas = n
		kv, err = create(ctx, js, c)
		if err == nil {
			return kv, nil
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another node was faster
			return lookUp(ctx, js, c.Bucket)
		}
		if _, ok := errors.AsType[*jetstream.APIError](err); !ok {
			break // it is not that it can't have so many replicas
		}
	}
	return nil, err
}

func lookUp(ctx context.Context, js jetstream.JetStream, bucket string) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return js.KeyValue(ctx, bucket)
}

// create makes a bucket. If it takes longer, the bucket is there at the next attempt.
func create(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return js.CreateKeyValue(ctx, c)
}

// checkVersion returns an error if the server of NATS is too old.
func checkVersion(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return nil // not connected
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err == nil && err2 == nil && (major < 2 || major == 2 && minor < 11) {
		return &oldError{version}
	}
	return nil
}

// An oldError is about a version of NATS.
type oldError struct{ version string }

func (e *oldError) Error() string {
	return fmt.Sprintf("the NATS server has version %s; nodes need 2.11 or later: update it", e.version)
}

// isDisconnected reports whether an error says that there is no connection to NATS.
func isDisconnected(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, nats.ErrReconnectBufExceeded)
}

// words returns the error as a sentence for people.
func words(err error) string {
	api, _ := errors.AsType[*jetstream.APIError](err)
	_, old := errors.AsType[*oldError](err)
	switch {
	case old:
		return err.Error()
	case errors.Is(err, jetstream.ErrLimitMarkerTTLNotSupported):
		return (&oldError{"older than 2.11"}).Error()
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return "JetStream is off on the NATS server, so that no servers can be announced or learned; start it with 'nats-server -js'"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "JetStream is off for the account at the NATS server, so that no servers can be announced or learned; enable it for the account"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout),
		api != nil && api.Code == 503:
		return "JetStream does not answer: it has no leader at the moment, or NATS's permissions refuse the requests; the last known servers stay in use"
	case isDisconnected(err):
		return "there is no connection to NATS"
	case errors.Is(err, nats.ErrMaxPayload):
		return "the payload limit of the NATS server is too low for the announcement; raise max_payload to 1 MB"
	}
	return "JetStream: " + err.Error()
}
