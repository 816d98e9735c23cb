package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
)

func newServeCommand(local *service.Runner, args []string, program string) *cobra.Command {
	f := service.Flags{Args: args, Program: program}
	var cmd *cobra.Command
	cmd = newCommand("serve", noArguments, func(ctx context.Context, _ []string) error {
		if slices.Sort(f.Only); cmd.Flags().Changed("only") && strings.Join(f.Only, "") == "" {
			return console.Usage(errors.New("--only names no server; name one, or leave the flag out"))
		}
		f.Only = slices.Compact(f.Only)
		f.OverHTTP = cmd.Flags().Changed("http")
		f.Stdio = f.Stdio && (!f.OverHTTP || cmd.Flags().Changed("stdio"))
		return service.Serve(ctx, local, f)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.Mode, "mode", "", "Show clients tools in this `MODE`: search (tools that find and call the others), direct (all tools), code (tools that find the others and run scripts that call them), or auto (direct if the definitions of all tools cost at most toolBudget tokens, else search). (default \"mode\" of the configuration, else auto)")
	flags.StringVar(&f.Names, "names", "", "Name tools in direct mode in this `STYLE`: prefixed (server__tool) or bare (the tool's own name where it is unique). (default \"names\" of the configuration, else prefixed)")
	flags.BoolVar(&f.FindTools, "find-tools", false, "In direct mode, list find_tools too if the definitions of all tools cost more than toolBudget tokens: for clients that load tools by name. By default \"findTools\" of the configuration decides.")
	flags.StringVar(&f.Profile, "profile", "", "Show clients only what the `profile` of this name allows. Clients over HTTP may choose another one too, and then see what both allow. (default the profile \"default\" if there is one, else everything)")
	flags.StringSliceVar(&f.Only, "only", nil, "Show clients only the `servers` with these names, with commas between them. A single one is shown as itself: its name, its instructions, its tools under their own names. (default all servers)")
	flags.StringVar(&f.Cluster, "cluster", "", "Join the cluster of routers at these `URLs` of NATS servers, such as nats://hub:4222, with commas between them. Other programs can read them, so write a password into the configuration. (default \"cluster.urls\" of the configuration, else no cluster)")
	flags.BoolVar(&f.NoWatch, "no-watch", false, "Do not reload the configuration when its files change, only on SIGHUP. By default an edit takes effect when the file is saved.")
	flags.StringVar(&f.Web.Address, "http", "", "Serve over HTTP at this `address`, such as 127.0.0.1:8787. If it is empty (\"\"), the address is \"http.addr\" of the configuration, or 127.0.0.1:8787 if that is not set. Without the flag nothing is served over HTTP.")
	flags.BoolVar(&f.Stdio, "stdio", true, "Serve one client over stdin and stdout. With --http it is off by default. If you write both --http and --stdio, the router ends when stdin is closed.")
	flags.StringVar(&f.Web.TokenFile, "token-file", "", "HTTP clients must send the token in this `file` as \"Authorization: Bearer TOKEN\". Tokens in METAROUTER_TOKEN and in \"http.tokens\" of the configuration are accepted too. (default no file)")
	flags.StringArrayVar(&f.Web.Hosts, "allow-host", nil, "Accept HTTP requests whose Host header is this `name`, such as router.example.com. Repeat the flag for several names. By default only loopback names, the address of --http and the host of \"http.publicUrl\" are accepted.")
	flags.StringVar(&f.Web.TLSCert, "tls-cert", "", "Serve HTTPS with the certificate and its chain in this PEM `file`, which is read again when it changes. (default \"http.tlsCert\" of the configuration, else plain HTTP)")
	flags.StringVar(&f.Web.TLSKey, "tls-key", "", "Read the key of --tls-cert from this PEM `file`, which is read again when it changes. (default \"http.tlsKey\" of the configuration)")
	flags.BoolVar(&f.Standalone, "standalone", false, "Run the servers for this client alone. By default all clients of one configuration share a router and its servers, whatever their folder and environment, over stdio and HTTP.")
	flags.StringVar(&f.Host, service.HostFlag, "", "")
	flags.MarkHidden(service.HostFlag)
	return cmd
}
