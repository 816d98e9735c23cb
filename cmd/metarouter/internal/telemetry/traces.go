package telemetry

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
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

const scope = "github.com/mcp-metarouter/metarouter"

// OpenTraces reads the standard environment variables (OTEL_…). It returns nil unless
// they turn traces on: with OTEL_TRACES_EXPORTER=otlp or with an endpoint. If they ask for
// traces that cannot be sent, it logs why and returns nil. The result must be closed.
func OpenTraces(version string, log *zap.Logger) *Traces {
	log = log.Named("traces")
	settings, wanted, err := traceSettings()
	if err != nil {
		log.Warn("no traces are sent", zap.Error(err))
	}
	if !wanted || err != nil {
		return nil
	}
	// OpenTelemetry reports its errors to global handlers only. Its log quotes values of
	// variables, which may be secrets and were checked above.
	otel.SetLogger(logr.Discard())
	seldom := &rate.Sometimes{Interval: time.Minute} // not at each batch
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		seldom.Do(func() {
			text := err.Error() // which quotes the collector's answer
			log.Warn("the collector did not accept spans; they are lost", zap.String("error", text[:min(len(text), maxLoggedError)]))
		})
	}))
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
	return &Traces{sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(exporter{client}, sdk.WithExportTimeout(settings.timeout))), log}
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

// CheckTraces returns why no traces are sent although the environment asks for them, and
// a remedy after "; ". It returns nil if they are sent or not asked for.
func CheckTraces() error {
	_, _, err := traceSettings()
	return err
}

// traceSettings reads the environment, and reports whether it turns traces on. The error is that it asks for traces that
// cannot be sent.
func traceSettings() (s otlpSettings, wanted bool, err error) {
	named := os.Getenv("OTEL_TRACES_EXPORTER")
	exporters := strings.FieldsFunc(named, func(r rune) bool { return r == ',' || r == ' ' })
	_, endpoint := traceVariable("ENDPOINT")
	switch {
	case strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true"),
		slices.Contains(exporters, "none"), len(exporters) == 0 && endpoint == "":
		return s, false, nil
	case len(exporters) > 0 && !slices.Contains(exporters, "otlp"):
		return s, true, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, and this program has no such exporter; write otlp or none", named)
	}
	s, err = readOTLPSettings()
	return s, true, err
}
