// Package completion suggests to shells what can follow a word of the command line. It
// starts no server and asks no router: it reads the configuration's files at most.
package completion

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/config"
)

// Add adds the suggestions for the commands below root. configs are the values of
// --config. A command without an entry here takes words of the user's own, so no file
// names are suggested for it.
func Add(root *cobra.Command, configs *[]string) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	files := func(extensions ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
	}
	arguments := map[string]cobra.CompletionFunc{
		"builtin": fixed("utilities\tdates, units, text, classification", "files\treads the files of a folder"),
		"import":  first(fixed(clients.Names()...)),
		"install": first(fixed(clients.Names()...)),
		"login":   first(serverNames(configs, isRemote)),
		"logout":  first(serverNames(configs, isRemote)),
		"man":     cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		"plan":    files("json", "jsonc"),
		"remove":  first(serverNames(configs, isAny)),
		"enable":  first(serverNames(configs, isAny)),
		"disable": first(serverNames(configs, isAny)),
		"restart": first(serverNames(configs, isAny)),
		"servers": first(serverNames(configs, isAny)),
		"tools":   first(serverNames(configs, isAny)),
		"trust":   files("json", "jsonc"),
	}
	flags := map[string]cobra.CompletionFunc{
		"addr": fixed(), "allow-host": fixed(), "capability": fixed(), "cluster": fixed(), "for": fixed(), "http": fixed(),
		"log-level": fixed("debug", "info", "warn", "error"),
		"mode":      fixed("auto\tall tools if they are known and cost at most toolBudget tokens, else the search tools", "search\ttools that find and call the others", "direct\tall tools"),
		"names":     fixed("prefixed\tserver__tool", "bare\tthe tool's own name where it is unique"),
		"server":    serverNames(configs, isAny), "servers": serverNames(configs, isAny),
		"transport": fixed("stdio", "http", "sse"),
		"env":       fixed(), "header": fixed(), "scope": fixed(),
	}
	_ = root.MarkPersistentFlagFilename("config", "json", "jsonc")
	_ = root.MarkPersistentFlagDirname("data")
	_ = root.RegisterFlagCompletionFunc("log-level", flags["log-level"])
	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction = arguments[cmd.Name()]; cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
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

func isAny(config.Server) bool      { return true }
func isRemote(s config.Server) bool { return s.Transport != config.Stdio }

// serverNames suggests the names of those servers of the configuration that fit. It needs no
// trust: it shows names, and runs nothing of the file.
func serverNames(configs *[]string, fits func(config.Server) bool) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		paths, _, err := config.Find(*configs)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := config.LoadText(paths...)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, s := range c.Servers {
			unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
			if fits(s) && !strings.ContainsFunc(s.Name, unprintable) { // a shell could take it for a command
				names = append(names, s.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
