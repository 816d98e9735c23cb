package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
)

// CheckHealth asks a router over HTTP for its health, with TLS if the router has it, and prints the answer. It is for containers,
// which may have no other HTTP client.
func CheckHealth(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return console.Usage(err)
	}
	// The certificate is for the name by which others call this machine, not for the
	// loopback address. The request carries no secret.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err == nil && response.StatusCode == http.StatusBadRequest { // as net/http answers where it expects TLS
		response.Body.Close()
		request.URL.Scheme = "https"
		response, err = client.Do(request)
	}
	if err != nil {
		return fmt.Errorf("no router answers: %w; start one with 'metarouter serve --http 127.0.0.1:8787', or write its URL", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	_, err = io.Copy(out, io.LimitReader(response.Body, 1<<16))
	fmt.Fprintln(out)
	return err
}
