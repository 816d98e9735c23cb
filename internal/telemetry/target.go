package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A target is where spans are sent, and how, as the variables OTEL_EXPORTER_OTLP_… and
// OTEL_EXPORTER_OTLP_TRACES_… say (OpenTelemetry, "OTLP Exporter Configuration").
type target struct {
	url     *url.URL
	headers map[string]string
	gzip    bool
	timeout time.Duration // of a batch, all attempts together
	tls     *tls.Config   // nil for the system's certificates
}

func targetOf(getenv func(string) string, readFile func(string) ([]byte, error)) (target, error) {
	t := target{timeout: sendTime, headers: make(map[string]string)}
	if err := protocolOf(getenv); err != nil {
		return t, err
	}
	endpoint, path := strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")), ""
	if endpoint == "" {
		// "If the endpoint is for all signals, it is a base URL, and signals are sent
		// relative to that."
		endpoint, path = strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), "v1/traces"
	}
	if endpoint == "" {
		endpoint = "http://localhost:4318"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return t, errors.New("the OTLP endpoint is no http or https url; write for example http://localhost:4318") // it may hold a secret
	}
	if path != "" {
		u.Path = strings.TrimRight(u.Path, "/") + "/" + path
	}
	t.url = u
	switch compression := signal(getenv, "COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		t.gzip = true
	default:
		return t, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; write gzip or none", compression)
	}
	if said := signal(getenv, "TIMEOUT"); said != "" {
		ms, err := strconv.Atoi(said)
		if err != nil || ms < 1 {
			return t, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; write a number of milliseconds", said)
		}
		t.timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(signal(getenv, "HEADERS"), ",") {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			continue
		}
		if value, err = url.PathUnescape(strings.TrimSpace(value)); err != nil {
			return t, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the value of %s is not percent-encoded as in a URL", key)
		}
		t.headers[key] = value
	}
	return t, t.certificates(getenv, readFile)
}

// certificates reads whom to trust, and who we are.
func (t *target) certificates(getenv func(string) string, readFile func(string) ([]byte, error)) error {
	trusted, certificate, key := signal(getenv, "CERTIFICATE"), signal(getenv, "CLIENT_CERTIFICATE"), signal(getenv, "CLIENT_KEY")
	if trusted == "" && certificate == "" && key == "" {
		return nil
	}
	t.tls = &tls.Config{}
	if trusted != "" {
		pem, err := readFile(trusted)
		if err != nil {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: there is no certificate in %s", trusted)
		}
	}
	if certificate == "" && key == "" {
		return nil
	}
	certificatePEM, err := readFile(certificate)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
	}
	keyPEM, err := readFile(key)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
	}
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
	}
	t.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// client returns a client for the target, with connections of its own.
func (t *target) client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if t.tls != nil {
		transport.TLSClientConfig = t.tls
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the headers may hold a secret
	return &http.Client{Transport: transport, CheckRedirect: stay}
}
