package main

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
)

// addCompletion adds the words that shells suggest for the commands below root. It starts no server and asks no
// router. configs are the values of --config. A command without an entry here takes words of the user's own, so no
// file names are suggested for it.
func addCompletion(root *cobra.Command, configs *[]string) {
	words := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	files := func(extensions ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
	}
	anyFile := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	serverNames := names(configs, configfile.ServerNames)
	arguments := map[string]cobra.CompletionFunc{ // of the first argument
		"builtin": words("utilities\tconverts units, validates JSON", "files\tlists and reads the files of a folder"),
		"import":  words(clients.Names()...), "install": words(clients.Names()...),
		"login": names(configs, remoteServers), "logout": names(configs, remoteServers),
		"remove": serverNames, "enable": serverNames, "disable": serverNames, "restart": serverNames, "servers": serverNames,
		"tools": serverNames,
		"man":   cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs), "script": files("js"), "trust": files("json", "jsonc"),
	}
	flags := map[string]cobra.CompletionFunc{
		"mode":   words("auto\tall tools if they are known and cost at most toolBudget tokens, else the search tools", "search\ttools that find and call the others", "direct\tall tools", "code\ttools that find the others and run scripts that call them"),
		"names":  words("prefixed\tserver__tool", "bare\tthe tool's own name where it is unique"),
		"server": serverNames, "servers": serverNames, "only": serverNames, "profile": names(configs, func(c config.Config) []string { return slices.Sorted(maps.Keys(c.Router.Profiles)) }),
		"transport": words("stdio", "http", "sse"),
		"file":      anyFile, "token-file": anyFile, "tls-cert": anyFile, "tls-key": anyFile,
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	_ = root.MarkPersistentFlagFilename("config", "json", "jsonc")
	_ = root.MarkPersistentFlagDirname("data")
	_ = root.RegisterFlagCompletionFunc("log-level", words("debug", "info", "warn", "error"))
	for _, cmd := range root.Commands() {
		if values := arguments[cmd.Name()]; values != nil {
			cmd.ValidArgsFunction = first(values)
		}
		for name, values := range flags {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, values)
			}
		}
	}
}

// first returns the suggestions for a first argument; there are none for others.
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
func names(configs *[]string, of func(c config.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		paths, _, err := configpath.Find(*configs)
		var c config.Config
		if err == nil {
			c, _ = config.LoadText(paths...)
		}
		return slices.DeleteFunc(of(c), func(name string) bool {
			return strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

func remoteServers(c config.Config) (names []string) {
	for _, s := range c.Servers {
		if s.URL != "" {
			names = append(names, s.Name)
		}
	}
	return names
}
