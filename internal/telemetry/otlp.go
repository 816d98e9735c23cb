package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
)

// OTLP over HTTP, spoken by hand: OpenTelemetry's own exporter has all of gRPC in it,
// which made the program larger by 4 MB and took 2 MB of memory from everybody, whether
// they trace or not. The messages are those of opentelemetry-proto, trace/v1.

// An exporter sends spans to a collector. It implements [sdk.SpanExporter].
type exporter struct {
	target target
	client *http.Client
	log    *zap.Logger

	mu   sync.Mutex // guards what follows
	down bool       // the last batch was not taken
}

func newExporter(t target, log *zap.Logger) *exporter {
	return &exporter{target: t, client: t.client(), log: log}
}

// Shutdown implements [sdk.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// ExportSpans implements [sdk.SpanExporter]. That a collector is down is said once, and
// is no error to anybody.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, e.target.timeout)
	defer cancel()
	body := request(spans)
	if e.target.gzip {
		body = compressed(body)
	}
	attempt := func() (rejected string, err error) { return e.post(ctx, body) }
	rejected, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(e.target.timeout))
	if rejected != "" {
		e.log.Warn("the collector has refused spans", zap.String("why", rejected))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil && !e.down:
		e.log.Warn("spans can't be sent, and are lost", zap.Int("spans", len(spans)), zap.Error(err))
	case err == nil && e.down:
		e.log.Info("spans are sent again")
	}
	e.down = err != nil
	return nil
}

// maxAnswer bounds what is read of an answer, and shownAnswer what is logged of it.
const (
	maxAnswer   = 64 << 10
	shownAnswer = 200
)

// post sends a request once. Errors that another attempt can't mend are permanent.
func (e *exporter) post(ctx context.Context, body []byte) (rejected string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.target.url.String(), bytes.NewReader(body))
	if err != nil {
		return "", backoff.Permanent(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "metarouter OTLP")
	if e.target.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	for key, value := range e.target.headers {
		r.Header.Set(key, value)
	}
	resp, err := e.client.Do(r)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return "", backoff.Permanent(err) // nobody is there, and a command that ends should not wait for one
	}
	if named, ok := errors.AsType[*url.Error](err); ok {
		err = named.Err // without the URL, which may hold a secret
	}
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return rejection(answer), nil
	}
	err = fmt.Errorf("the collector answered %s: %q", resp.Status, answer[:min(len(answer), shownAnswer)])
	switch resp.StatusCode { // "Retryable Response Codes"
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil && seconds > 0 {
			return "", backoff.RetryAfter(seconds)
		}
		return "", err
	}
	return "", backoff.Permanent(err)
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body)
	w.Close()
	return b.Bytes()
}

// rejection returns what an answer says of spans that were not taken, "" if all were.
func rejection(answer []byte) string {
	var count int64
	why := ""
	fields(fieldOf(answer, 1), func(n protowire.Number, number uint64, value []byte) {
		switch n {
		case 1:
			count = int64(number)
		case 2:
			why = string(value[:min(len(value), shownAnswer)])
		}
	})
	if count == 0 && why == "" {
		return ""
	}
	return fmt.Sprintf("%d spans: %s", count, why)
}

// fieldOf returns the message in a field of a message.
func fieldOf(message []byte, field protowire.Number) (inner []byte) {
	fields(message, func(n protowire.Number, _ uint64, value []byte) {
		if n == field {
			inner = value
		}
	})
	return inner
}

// fields calls f for the numbers and the bytes in a message, as far as it is one.
func fields(message []byte, f func(n protowire.Number, number uint64, value []byte)) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		var number uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(n, kind, message)
		}
		if size < 0 {
			return
		}
		f(n, number, value)
		message = message[size:]
	}
}

// request returns an ExportTraceServiceRequest. All spans are of one service and made by
// one tracer.
func request(spans []sdk.ReadOnlySpan) []byte {
	if len(spans) == 0 {
		return nil
	}
	var about, made, by []byte
	for _, a := range spans[0].Resource().Attributes() {
		about = bytesField(about, 1, keyValue(a))
	}
	by = stringField(nil, 1, spans[0].InstrumentationScope().Name)
	made = bytesField(made, 1, by)
	for _, s := range spans {
		made = bytesField(made, 2, span(s))
	}
	return bytesField(nil, 1, bytesField(bytesField(nil, 1, about), 2, made))
}

// span returns a Span. Ours have neither events nor links.
func span(s sdk.ReadOnlySpan) []byte {
	self, parent := s.SpanContext(), s.Parent()
	traceID, spanID := self.TraceID(), self.SpanID()
	b := bytesField(nil, 1, traceID[:])
	b = bytesField(b, 2, spanID[:])
	b = stringField(b, 3, self.TraceState().String())
	flags := uint32(self.TraceFlags()) | 0x100 // it is known whether the parent is remote
	if parent.IsValid() {
		parentID := parent.SpanID()
		b = bytesField(b, 4, parentID[:])
		if parent.IsRemote() {
			flags |= 0x200
		}
	}
	b = stringField(b, 5, s.Name())
	b = numberField(b, 6, uint64(s.SpanKind())) // the same numbers
	b = timeField(b, 7, s.StartTime())
	b = timeField(b, 8, s.EndTime())
	for _, a := range s.Attributes() {
		b = bytesField(b, 9, keyValue(a))
	}
	b = numberField(b, 10, uint64(s.DroppedAttributes()))
	b = bytesField(b, 15, status(s.Status()))
	b = protowire.AppendTag(b, 16, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, flags)
}

func status(s sdk.Status) []byte {
	b := stringField(nil, 2, s.Description)
	switch s.Code {
	case codes.Ok:
		b = numberField(b, 3, 1)
	case codes.Error:
		b = numberField(b, 3, 2)
	}
	return b
}

func keyValue(a attribute.KeyValue) []byte {
	return bytesField(stringField(nil, 1, string(a.Key)), 2, anyValue(a.Value))
}

func anyValue(v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		b := protowire.AppendTag(nil, 2, protowire.VarintType)
		return protowire.AppendVarint(b, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		b := protowire.AppendTag(nil, 3, protowire.VarintType)
		return protowire.AppendVarint(b, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		b := protowire.AppendTag(nil, 4, protowire.Fixed64Type)
		return protowire.AppendFixed64(b, math.Float64bits(v.AsFloat64()))
	case attribute.STRING:
		return bytesField(nil, 1, validUTF8(v.AsString()))
	}
	return bytesField(nil, 1, validUTF8(v.String())) // of lists, which we have none of
}

func bytesField(b []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
}

// stringField leaves out an empty string, as is usual.
func stringField(b []byte, n protowire.Number, value string) []byte {
	if value == "" {
		return b
	}
	return bytesField(b, n, validUTF8(value))
}

// validUTF8 returns a string as a collector takes it.
func validUTF8(s string) []byte { return bytes.ToValidUTF8([]byte(s), []byte("\ufffd")) }

func numberField(b []byte, n protowire.Number, value uint64) []byte {
	if value == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), value)
}

func timeField(b []byte, n protowire.Number, at time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), uint64(at.UnixNano()))
}
