package telemetry

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// An exporter sends spans with OpenTelemetry's exporter. Names come from servers, and one invalid string would make that drop the
// whole batch.
type exporter struct{ sdk.SpanExporter }

// ExportSpans implements [sdk.SpanExporter].
func (e exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	for i, s := range spans {
		spans[i] = validSpan{s}
	}
	return e.SpanExporter.ExportSpans(ctx, spans)
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
