package main

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clients"
)

// complete tells shells what can follow, for the commands below root. Nothing is
// started and nothing asked but the configuration's file. What has no entry here takes
// words of the user's own, and no file names are suggested for it.
func (a *app) complete(root *cobra.Command) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	files := func(extensions ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
	}
	arguments := map[string]cobra.CompletionFunc{
		"builtin": fixed("utilities\tdates, units, text, classification", "files\tread-only files of a folder"),
		"import":  first(fixed(clients.Names()...)),
		"install": first(fixed(clients.Names()...)),
		"man":     cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		"plan":    files("json", "jsonc"),
		"restart": first(a.serverNames),
		"trust":   files("json", "jsonc"),
	}
	flags := map[string]cobra.CompletionFunc{
		"addr": fixed(), "allow-host": fixed(), "capability": fixed(), "for": fixed(), "http": fixed(),
		"log-level": fixed("debug", "info", "warn", "error"),
		"mode":      fixed("auto\tdirect while all definitions cost little", "search\ttools that find and call the others", "direct\tall tools"),
		"names":     fixed("prefixed\tserver__tool", "bare\tthe tool's own name where it is unique"),
		"server":    a.serverNames,
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

// first is what completes the first argument, after which there are none.
func first(values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(cmd, args, word)
	}
}

// serverNames are those of the configuration. Listing them needs no trust: they are
// shown, and nothing of the file is run.
func (a *app) serverNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	paths, _, err := config.Find(a.configs)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := config.Load(paths...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, s := range c.Servers {
		odd := func(r rune) bool { return !unicode.IsPrint(r) }
		if !strings.ContainsFunc(s.Name, odd) { // a shell would take it for something else
			names = append(names, s.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
