package directory

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// lifetime is how long the bucket keeps a value that is not put again.
	lifetime = 24 * time.Hour
	replicas = 3

	// try limits one request to JetStream. A request during the election of a leader, which takes 4
	// to 10 s, may get no answer at all, so that it is better repeated soon.
	try = 4 * time.Second
)

// open returns the bucket, and makes it if it does not exist.
func (d *Directory) open(ctx context.Context) (jetstream.KeyValue, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	d.mu.Lock()
	kv := d.bucket
	d.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	conn := d.options.Conn()
	if conn == nil {
		return nil, nats.ErrDisconnected
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	name := "metarouter-" + d.options.Own.Cluster
	kv, err = js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = create(ctx, js, name)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		// This request says whether JetStream is off.
		if _, off := js.AccountInfo(ctx); off != nil {
			err = off
		}
	}
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := status.(*jetstream.KeyValueBucketStatus); ok && !d.made.Equal(s.StreamInfo().Created) { // all that was put has gone
		if !d.made.IsZero() {
			d.Retry()
		}
		d.made = s.StreamInfo().Created
		for _, p := range d.mine {
			p.put = time.Time{}
		}
	}
	d.bucket = kv
	return kv, nil
}

// create makes the bucket, with replicas where NATS has so many servers.
func create(ctx context.Context, js jetstream.JetStream, name string) (kv jetstream.KeyValue, err error) {
	for _, n := range []int{replicas, 1} {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "routers of metarouter, and the servers that they share",
			History: 1, TTL: lifetime, MaxValueSize: maxChunk, Replicas: n,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another node was faster
			return js.KeyValue(ctx, name)
		}
		if _, refused := errors.AsType[*jetstream.APIError](err); !refused {
			break // it is not that it can't have so many replicas
		}
	}
	return kv, err
}

func put(ctx context.Context, kv jetstream.KeyValue, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	_, err := kv.Put(ctx, key, value)
	return err
}

// isDisconnected reports whether an error says that there is no connection to NATS.
func isDisconnected(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, nats.ErrReconnectBufExceeded)
}

// words returns the error as a sentence for people.
func words(err error) string {
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return `it is off; start nats-server with -js, or set "jetstream" in its configuration`
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "it is off for the account of this router; enable it for the account"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout),
		api != nil && api.Code == 503:
		return "no answer came in time, as during an election, without the majority of the servers, or if the permissions of NATS refuse the requests"
	case isDisconnected(err):
		return "there is no connection to NATS"
	case errors.Is(err, nats.ErrMaxPayload):
		return "the NATS server takes messages of too few bytes for the announcement; raise max_payload to 1 MB"
	}
	return err.Error()
}
