package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// health is for containers that have nothing else to look with.
func (a *app) health() *cobra.Command {
	cmd := leaf("health [URL]", "Fail unless a router serves over HTTP",
		"  metarouter health http://127.0.0.1:8787/health", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			url := "http://127.0.0.1:8787/health"
			if len(args) == 1 {
				url = args[0]
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return usage(err)
			}
			// It asks its own machine, whose certificate is for the name that others call
			// it by, and sends no secret.
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %s", url, response.Status)
			}
			_, err = io.Copy(a.stdout, io.LimitReader(response.Body, 1<<16))
			fmt.Fprintln(a.stdout)
			return err
		})
	cmd.Hidden = true
	return cmd
}
