package telemetry

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Traces makes spans, and sends them to an OpenTelemetry collector in the background.
// A nil *Traces makes none.
type Traces struct {
	provider *sdk.TracerProvider
	log      *zap.Logger
}

const scope = "github.com/mcp-metarouter/metarouter"

// OpenTraces reads the standard environment variables (OTEL_…). It returns nil unless
// they turn traces on: with OTEL_TRACES_EXPORTER=otlp or with an endpoint. If they ask for
// traces that cannot be sent, it logs why and returns nil. The result must be closed.
func OpenTraces(version string, log *zap.Logger) *Traces {
	log = log.Named("traces")
	if !tracesWanted(log) {
		return nil
	}
	settings, err := readOTLPSettings()
	if err != nil {
		log.Warn("no traces are sent", zap.Error(err))
		return nil
	}
	// OpenTelemetry reports its errors to global handlers only. Its log quotes values of
	// variables, which may be secrets and were checked above.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("OpenTelemetry", zap.Error(err)) }))
	client, err := otlptrace.New(context.Background(), settings.client())
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
	to := settings.endpoint
	log.Info("sending traces", zap.String("to", to.Scheme+"://"+to.Host+to.Path), zap.String("protocol", settings.protocol))
	e := &exporter{SpanExporter: client, timeout: settings.timeout, log: log}
	return &Traces{sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(e)), log}
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

// Environment returns the OTEL_ variables of this process as NAME=VALUE if they turn
// traces on, and nil otherwise.
func Environment() (all []string) {
	if !tracesWanted(zap.NewNop()) {
		return nil
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "OTEL_") {
			all = append(all, variable)
		}
	}
	return all
}

// tracesWanted reports whether the environment turns traces on.
func tracesWanted(log *zap.Logger) bool {
	if strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true") {
		return false
	}
	exporters := strings.FieldsFunc(os.Getenv("OTEL_TRACES_EXPORTER"), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(exporters) == 0:
		return traceVariable("ENDPOINT") != ""
	case slices.Contains(exporters, "none"):
		return false
	case slices.Contains(exporters, "otlp"):
		return true
	}
	log.Warn("no traces are sent: OTEL_TRACES_EXPORTER names no exporter that this program has; write otlp or none", zap.Strings("exporters", exporters))
	return false
}
