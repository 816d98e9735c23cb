package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// An exporter sends spans with OpenTelemetry's exporter. It bounds the time of a batch,
// and logs once, not at each batch, that the collector does not accept spans. It
// implements [sdk.SpanExporter].
type exporter struct {
	sdk.SpanExporter
	timeout time.Duration // for one batch, including retries
	log     *zap.Logger

	mu   sync.Mutex // guards down
	down bool       // the last batch failed
}

// maxLoggedError bounds a logged error, which quotes the collector's answer.
const maxLoggedError = 400

// ExportSpans implements [sdk.SpanExporter]. It logs errors instead of returning them,
// since the SDK would log them again.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for i, s := range spans {
		spans[i] = withValidText(s)
	}
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil && !e.down:
		text := err.Error()
		e.log.Warn("the collector did not accept spans; they are lost", zap.Int("spans", len(spans)), zap.String("error", text[:min(len(text), maxLoggedError)]))
	case err == nil && e.down:
		e.log.Info("the collector accepts spans again")
	}
	e.down = err != nil
	return nil
}

// withValidText returns the span with invalid UTF-8 replaced. Names come from servers,
// and one invalid string would make the exporter drop the whole batch.
func withValidText(s sdk.ReadOnlySpan) sdk.ReadOnlySpan {
	invalid := func(a attribute.KeyValue) bool {
		return a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString())
	}
	if utf8.ValidString(s.Name()) && utf8.ValidString(s.Status().Description) && !slices.ContainsFunc(s.Attributes(), invalid) {
		return s
	}
	return validSpan{s}
}

// A validSpan is a span with invalid UTF-8 replaced.
type validSpan struct{ sdk.ReadOnlySpan }

func (s validSpan) Name() string { return valid(s.ReadOnlySpan.Name()) }

func (s validSpan) Status() sdk.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = valid(status.Description)
	return status
}

func (s validSpan) Attributes() []attribute.KeyValue {
	all := slices.Clone(s.ReadOnlySpan.Attributes())
	for i, a := range all {
		if a.Value.Type() == attribute.STRING {
			all[i].Value = attribute.StringValue(valid(a.Value.AsString()))
		}
	}
	return all
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
