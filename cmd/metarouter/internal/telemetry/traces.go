package telemetry

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Traces makes spans, and sends them to an OpenTelemetry collector in the background.
// A nil *Traces makes no spans.
type Traces struct {
	provider *sdk.TracerProvider
	log      *zap.Logger
}

// maxLoggedError bounds a logged error, in bytes.
const maxLoggedError = 400

const exporterVariable = "OTEL_TRACES_EXPORTER"

// defaultEndpoint is the one of OpenTelemetry's specification, for traces without a variable that names one.
const defaultEndpoint = "http://localhost:4318/v1/traces"

const scope = "github.com/mcp-metarouter/metarouter"

// OpenTraces returns the traces that OpenTelemetry's variables (OTEL_…) ask for, which OpenTelemetry reads itself. It
// returns nil unless one of them turns traces on. The result must be closed.
func OpenTraces(version string, log *zap.Logger) *Traces {
	variable := tracesVariable()
	if variable == "" {
		return nil
	}
	log = log.Named("traces")
	// OpenTelemetry reports its errors to global handlers only. Its log quotes values of variables, which may be secrets.
	otel.SetLogger(logr.Discard())
	seldom := &rate.Sometimes{Interval: time.Minute} // not at each batch
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		seldom.Do(func() {
			text := err.Error() // which quotes the collector's answer
			log.Warn("the collector did not accept spans; they are lost", zap.String("error", text[:min(len(text), maxLoggedError)]))
		})
	}))
	options := []otlptracehttp.Option{otlptracehttp.WithProxy(proxyOf)}
	if variable == exporterVariable {
		options = append(options, otlptracehttp.WithEndpointURL(defaultEndpoint)) // the library's own is https
	}
	client, err := otlptracehttp.New(context.Background(), options...)
	if err != nil {
		log.Warn("no traces are sent", zap.Error(err))
		return nil
	}
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "metarouter"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	)
	if err != nil {
		log.Warn("some attributes of this service are unknown", zap.Error(err))
	}
	log.Info("sending traces, which " + variable + " asks for")
	return &Traces{sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(exporter{client})), log}
}

// proxyOf returns the proxy of the environment for a request, and refuses to follow a redirect: a header may contain a secret. It is the
// one hook that keeps the certificates that the library reads.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the collector redirects")
	}
	return http.ProxyFromEnvironment(r)
}

// tracesVariable returns the variable that turns traces on; "" if none does, or others turn them off.
func tracesVariable() string {
	exporters := os.Getenv(exporterVariable)
	isOTLP := strings.Contains(exporters, "otlp")
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || exporters != "" && !isOTLP {
		return ""
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	if isOTLP {
		return exporterVariable
	}
	return ""
}

// Tracer returns the tracer that makes spans, or nil if t is nil.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Close sends the remaining spans. It returns when they are sent or ctx ends.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans may not have been sent", zap.Error(err))
	}
}

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
