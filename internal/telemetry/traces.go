package telemetry

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Traces makes spans, and sends them to an OpenTelemetry collector in the background.
type Traces struct {
	provider *sdk.TracerProvider
	log      *zap.Logger
}

const scope = "github.com/mcp-metarouter/metarouter"

// OpenTraces returns what the standard environment variables ask for, nil if that is
// nothing: without OTEL_TRACES_EXPORTER=otlp and without an endpoint no span is made.
// What is asked for and can't be had is logged, and is no reason not to run. It must be
// closed.
func OpenTraces(version string, log *zap.Logger) *Traces {
	log = log.Named("traces")
	if !wanted(os.Getenv, log) {
		return nil
	}
	target, err := targetOf(os.Getenv, os.ReadFile)
	if err != nil {
		log.Warn("no traces are sent", zap.Error(err))
		return nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // the SDK knows no other way
		log.Warn("OpenTelemetry", zap.Error(err))
	}))
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "metarouter"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	)
	if err != nil {
		log.Warn("not all is known of this service", zap.Error(err))
	}
	log.Info("sending traces", zap.String("to", target.url.Scheme+"://"+target.url.Host+target.url.Path))
	return &Traces{sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(newExporter(target, log))), log}
}

// Tracer returns what makes spans; nil if t is nil.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Close sends what is left, until ctx ends.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans may not have been sent", zap.Error(err))
	}
}

// Environment returns the variables that say whether and where traces are sent; none if
// none are.
func Environment() (all []string) {
	if !wanted(os.Getenv, zap.NewNop()) {
		return nil
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "OTEL_") {
			all = append(all, variable)
		}
	}
	return all
}

// wanted reports whether the environment asks for traces that can be had.
func wanted(getenv func(string) string, log *zap.Logger) bool {
	if strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") {
		return false
	}
	exporters := strings.FieldsFunc(getenv("OTEL_TRACES_EXPORTER"), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(exporters) == 0:
		return signal(getenv, "ENDPOINT") != ""
	case slices.Contains(exporters, "none"):
		return false
	case slices.Contains(exporters, "otlp"):
		return true
	}
	log.Warn("no traces are sent: OTEL_TRACES_EXPORTER names none that is here; write otlp or none", zap.Strings("exporters", exporters))
	return false
}

// signal returns a setting of the exporter, where it is for traces rather than for all
// signals.
func signal(getenv func(string) string, name string) string {
	if value := strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); value != "" {
		return value
	}
	return strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_" + name))
}

// sendTime is how long one batch of spans may be on its way by default, all attempts
// together.
const sendTime = 10 * time.Second

// protocolOf fails for a protocol that is not spoken here: on the port of another, spans
// would vanish.
func protocolOf(getenv func(string) string) error {
	switch protocol := signal(getenv, "PROTOCOL"); protocol {
	case "", "http/protobuf":
		return nil
	default:
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, and only http/protobuf is spoken here: set it to that, and the endpoint to the collector's port for HTTP, which is mostly 4318", protocol)
	}
}
