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
