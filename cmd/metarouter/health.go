package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// newHealthCommand returns the health check of containers, which may have no other HTTP
// client.
func newHealthCommand(env *environment) *cobra.Command {
	cmd := newCommand("health [URL]", "Check whether a router serves over HTTP: exit code 0 if it does, 1 if not",
		"  metarouter health http://127.0.0.1:8787/health", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			url := "http://127.0.0.1:8787/health"
			if len(args) == 1 {
				url = args[0]
			}
			return runHealth(ctx, env, url)
		})
	cmd.Hidden = true
	return cmd
}

func runHealth(ctx context.Context, env *environment, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return exit.Usage(err)
	}
	// The certificate is for the name by which others call this machine, not for the
	// loopback address. The request carries no secret.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no router answers: %w; start one with 'metarouter serve --http 127.0.0.1:8787', or write its URL", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	_, err = io.Copy(env.Out, io.LimitReader(response.Body, 1<<16))
	fmt.Fprintln(env.Out)
	return err
}
