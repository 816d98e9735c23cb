package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// The protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names them. OTLP over gRPC is not
// supported: every collector accepts OTLP over HTTP.
const (
	protocolProto = "http/protobuf"
	protocolJSON  = "http/json"
	protocolGRPC  = "grpc"
)

// defaultEndpoint is the collector's usual address for OTLP over HTTP.
const defaultEndpoint = "http://localhost:4318"

// otlpSettings are what [Traces] needs to know of the variables OTEL_EXPORTER_OTLP_… and OTEL_EXPORTER_OTLP_TRACES_…
// (OpenTelemetry, "OTLP Exporter Configuration"). OpenTelemetry's exporter reads them, but it skips a wrong endpoint or
// protocol and goes on with the default, which sends spans elsewhere or unprotected.
type otlpSettings struct {
	protocol string
	endpoint *url.URL      // as the variable has it, or else the default
	timeout  time.Duration // for one batch, including retries
	tls      *tls.Config   // nil means the system's certificates
}

// readOTLPSettings fails if a variable has a value that cannot be used. Its errors do not quote the endpoint, which may
// contain a secret.
func readOTLPSettings() (otlpSettings, error) {
	s := otlpSettings{protocol: cmp.Or(traceVariable("PROTOCOL"), protocolProto), timeout: 10 * time.Second}
	switch s.protocol {
	case protocolProto, protocolJSON:
	case protocolGRPC:
		return s, fmt.Errorf("%s is %s, and OTLP over gRPC is not supported; write %s, and into %s the collector's address for HTTP, such as %s",
			nameOf("PROTOCOL"), protocolGRPC, protocolProto, nameOf("ENDPOINT"), defaultEndpoint)
	default:
		return s, fmt.Errorf("%s is %q; write %s or %s", nameOf("PROTOCOL"), s.protocol, protocolProto, protocolJSON)
	}
	u, err := url.Parse(cmp.Or(traceVariable("ENDPOINT"), defaultEndpoint))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s, errors.New("the OTLP endpoint is not an http or https URL; write for example " + defaultEndpoint)
	}
	s.endpoint = u
	if timeout := traceVariable("TIMEOUT"); timeout != "" {
		ms, err := strconv.Atoi(timeout)
		if err != nil || ms < 1 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; write a number of milliseconds", timeout)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	return s, s.readCertificates()
}

// readCertificates reads the certificates to trust and the client's own.
func (s *otlpSettings) readCertificates() error {
	trusted, certificate, key := traceVariable("CERTIFICATE"), traceVariable("CLIENT_CERTIFICATE"), traceVariable("CLIENT_KEY")
	if trusted == "" && certificate == "" && key == "" {
		return nil
	}
	s.tls = &tls.Config{}
	if trusted != "" {
		pem, err := safefile.Read(trusted, 4<<20)
		if err != nil {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s contains no certificate", trusted)
		}
	}
	if certificate == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
	}
	s.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// traceVariable returns a setting of the exporter: the one for traces, or else the one
// for all signals.
func traceVariable(name string) string {
	return cmp.Or(traceOnly(name), strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
}

func traceOnly(name string) string {
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name))
}

// nameOf returns the name of the variable that [traceVariable] reads: the one for traces if
// it is set.
func nameOf(setting string) string {
	if traceOnly(setting) != "" {
		return "OTEL_EXPORTER_OTLP_TRACES_" + setting
	}
	return "OTEL_EXPORTER_OTLP_" + setting
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
	if traceVariable("ENDPOINT") == "" {
		options = append(options, otlptracehttp.WithEndpointURL(defaultEndpoint+"/v1/traces"))
	}
	return otlptracehttp.NewClient(options...)
}
