package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// An exporter sends spans with OpenTelemetry's exporter. It bounds the time of a batch,
// and logs once a minute, not at each batch, that the collector does not accept spans. It
// implements [sdk.SpanExporter].
type exporter struct {
	sdk.SpanExporter
	timeout time.Duration // for one batch, including retries
	log     *zap.Logger
	seldom  rate.Sometimes
}

// maxLoggedError bounds a logged error, which quotes the collector's answer.
const maxLoggedError = 400

// ExportSpans implements [sdk.SpanExporter]. It logs errors instead of returning them,
// since the SDK would log them again.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for i, s := range spans {
		spans[i] = validSpan{s}
	}
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.seldom.Do(func() {
			text := err.Error()
			e.log.Warn("the collector did not accept spans; they are lost", zap.Int("spans", len(spans)), zap.String("error", text[:min(len(text), maxLoggedError)]))
		})
	}
	return nil
}

// A validSpan is a span with invalid UTF-8 replaced. Names come from servers,
// and one invalid string would make the exporter drop the whole batch.
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
