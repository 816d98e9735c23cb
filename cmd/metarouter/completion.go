package main

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
)

// addCompletion adds the words that shells suggest for the commands below root. It starts no server and asks no
// router. configs are the values of --config. A command without an entry here takes words of the user's own, so no
// file names are suggested for it.
func addCompletion(root *cobra.Command, configs *[]string) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	files := func(extensions ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
	}
	anyFile := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	arguments := map[string]cobra.CompletionFunc{
		"builtin": fixed("utilities\tconverts units, validates JSON", "files\tlists and reads the files of a folder"),
		"import":  first(fixed(clients.Names()...)),
		"install": first(fixed(clients.Names()...)),
		"login":   first(names(configs, remoteServers)),
		"logout":  first(names(configs, remoteServers)),
		"man":     cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		"remove":  first(names(configs, servers)),
		"enable":  first(names(configs, servers)),
		"disable": first(names(configs, servers)),
		"restart": first(names(configs, servers)),
		"script":  first(files("js")),
		"servers": first(names(configs, servers)),
		"call":    first(names(configs, storedTools)),
		"why":     first(names(configs, storedTools)),
		"tools":   first(names(configs, servers, storedTools)),
		"trust":   files("json", "jsonc"),
	}
	flags := map[string]cobra.CompletionFunc{
		"log-level": fixed("debug", "info", "warn", "error"),
		"mode":      fixed("auto\tall tools if they are known and cost at most toolBudget tokens, else the search tools", "search\ttools that find and call the others", "direct\tall tools", "code\ttools that find the others and run scripts that call them"),
		"names":     fixed("prefixed\tserver__tool", "bare\tthe tool's own name where it is unique"),
		"server":    names(configs, servers), "servers": names(configs, servers), "profile": names(configs, profiles), "only": names(configs, servers),
		"transport": fixed("stdio", "http", "sse"),
		"file":      anyFile, "token-file": anyFile, "tls-cert": anyFile, "tls-key": anyFile,
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	_ = root.MarkPersistentFlagFilename("config", "json", "jsonc")
	_ = root.MarkPersistentFlagDirname("data")
	_ = root.RegisterFlagCompletionFunc("log-level", flags["log-level"])
	for _, cmd := range root.Commands() {
		cmd.ValidArgsFunction = arguments[cmd.Name()]
		for name, values := range flags {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, values)
			}
		}
	}
}

// first returns the suggestions for a first argument that no other argument follows.
func first(values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(cmd, args, word)
	}
}

// names suggests names of the configuration, but for those that could be a command to the terminal. It needs no
// trust: it shows names, and runs nothing of the file.
func names(configs *[]string, of ...func(c config.Config, data string, usable bool) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
		data, _ := cmd.Flags().GetString("data")
		paths, named, err := configpath.Find(*configs)
		var c config.Config
		if err == nil {
			c, err = config.LoadText(paths...)
		}
		usable := err == nil && (named || c.Text.Trusted(data) == nil)
		for _, names := range of {
			all = append(all, names(c, data, usable)...)
		}
		return slices.DeleteFunc(all, func(name string) bool {
			return strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

func servers(c config.Config, _ string, _ bool) []string { return configfile.ServerNames(c) }

func remoteServers(c config.Config, _ string, _ bool) (names []string) {
	for _, s := range c.Servers {
		if s.URL != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

func profiles(c config.Config, _ string, _ bool) []string {
	return slices.Sorted(maps.Keys(c.Router.Profiles))
}

// storedTools returns the tools that are stored in the data folder.
func storedTools(c config.Config, data string, usable bool) (names []string) {
	if data == "" {
		return nil
	}
	if usable {
		c, _ = c.Expand() // entries are stored under their values
	}
	for _, offer := range adapter.StoredOffers(c, data) {
		for _, t := range offer.Tools {
			names = append(names, t.ID)
		}
	}
	slices.Sort(names)
	return names
}
