package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
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

// defaultEndpoint is the collector's usual address for OTLP over HTTP.
const defaultEndpoint = "http://localhost:4318"

// otlpSettings are what [Traces] needs to know of the variables OTEL_EXPORTER_OTLP_… and OTEL_EXPORTER_OTLP_TRACES_…
// (OpenTelemetry, "OTLP Exporter Configuration"). OpenTelemetry's exporter reads them, but it skips a wrong endpoint or
// protocol and goes on with the default, which sends spans elsewhere or unprotected.
type otlpSettings struct {
	protocol string
	endpoint *url.URL      // as the variable has it, or else the default
	timeout  time.Duration // for one batch, including retries
	tls      *tls.Config
}

// readOTLPSettings fails if a variable has a value that cannot be used. Its errors do not quote the endpoint, which may
// contain a secret.
func readOTLPSettings() (s otlpSettings, err error) {
	const proto, json = "http/protobuf", "http/json"
	name, protocol := traceVariable("PROTOCOL")
	if s.protocol = cmp.Or(protocol, proto); s.protocol != proto && s.protocol != json {
		return s, fmt.Errorf("%s is %q; write %s or %s, and as the endpoint the collector's address for HTTP, such as %s", name, protocol, proto, json, defaultEndpoint)
	}
	_, endpoint := traceVariable("ENDPOINT")
	u, err := url.Parse(cmp.Or(endpoint, defaultEndpoint))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s, errors.New("the OTLP endpoint is not an http or https URL; write for example " + defaultEndpoint)
	}
	name, timeout := traceVariable("TIMEOUT")
	ms, err := strconv.Atoi(cmp.Or(timeout, "10000"))
	if err != nil || ms < 1 {
		return s, fmt.Errorf("%s is %q; write a number of milliseconds", name, timeout)
	}
	s.endpoint, s.timeout = u, time.Duration(ms)*time.Millisecond
	s.tls, err = readCertificates()
	return s, err
}

// readCertificates reads the certificates to trust, by default the system's, and the client's own.
func readCertificates() (*tls.Config, error) {
	c := new(tls.Config)
	if name, trusted := traceVariable("CERTIFICATE"); trusted != "" {
		pem, err := safefile.Read(trusted, 4<<20)
		c.RootCAs = x509.NewCertPool()
		if err == nil && !c.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s contains no certificate", trusted)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	name, certificate := traceVariable("CLIENT_CERTIFICATE")
	if _, key := traceVariable("CLIENT_KEY"); certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// traceVariable returns the variable of a setting of the exporter, the one for traces or else the one
// for all signals, and its value.
func traceVariable(setting string) (name, value string) {
	for _, name = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + setting, "OTEL_EXPORTER_OTLP_" + setting} {
		if value = strings.TrimSpace(os.Getenv(name)); value != "" {
			break
		}
	}
	return name, value
}

const firstRetry = 500 * time.Millisecond

func (s *otlpSettings) client() otlptrace.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	options := []otlptracehttp.Option{
		otlptracehttp.WithMaxResponseSize(64 << 10),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: s.timeout, MaxElapsedTime: s.timeout}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a header may contain a secret
		}),
	}
	if _, set := traceVariable("ENDPOINT"); set == "" {
		options = append(options, otlptracehttp.WithEndpointURL(defaultEndpoint+"/v1/traces"))
	}
	return otlptracehttp.NewClient(options...)
}
