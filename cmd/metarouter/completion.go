package main

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/wire"
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
	arguments := map[string]cobra.CompletionFunc{
		"builtin": fixed("utilities\tconverts units, validates JSON", "files\tlists and reads the files of a folder"),
		"import":  first(fixed(clients.Names()...)),
		"install": first(fixed(clients.Names()...)),
		"login":   first(serverNames(configs, isRemote)),
		"logout":  first(serverNames(configs, isRemote)),
		"man":     cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		"remove":  first(serverNames(configs, isAny)),
		"enable":  first(serverNames(configs, isAny)),
		"disable": first(serverNames(configs, isAny)),
		"restart": first(serverNames(configs, isAny)),
		"script":  first(files("js")),
		"servers": first(serverNames(configs, isAny)),
		"call":    toolNames(configs, true),
		"why":     first(toolNames(configs, false)),
		"tools":   first(both(serverNames(configs, isAny), toolNames(configs, false))),
		"trust":   files("json", "jsonc"),
	}
	flags := map[string]cobra.CompletionFunc{
		"addr": fixed(), "allow-host": fixed(), "capability": fixed(), "cluster": fixed(), "for": fixed(), "http": fixed(),
		"log-level": fixed("debug", "info", "warn", "error"),
		"mode":      fixed("auto\tall tools if they are known and cost at most toolBudget tokens, else the search tools", "search\ttools that find and call the others", "direct\tall tools", "code\ttools that find the others and run scripts that call them"),
		"names":     fixed("prefixed\tserver__tool", "bare\tthe tool's own name where it is unique"),
		"server":    serverNames(configs, isAny), "servers": serverNames(configs, isAny), "profile": profileNames(configs), "only": serverNames(configs, isAny),
		"transport": fixed("stdio", "http", "sse"),
		"timeout":   fixed(),
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
func isRemote(s config.Server) bool { return s.URL != "" }

// serverNames suggests the names of those servers of the configuration that fit. It needs no
// trust: it shows names, and runs nothing of the file.
func serverNames(configs *[]string, fits func(config.Server) bool) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, _ := configured(*configs)
		var names []cobra.Completion
		for _, s := range c.Servers {
			if fits(s) {
				names = append(names, s.Name)
			}
		}
		return printable(names), cobra.ShellCompDirectiveNoFileComp
	}
}

func profileNames(configs *[]string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, _ := configured(*configs)
		return printable(slices.Sorted(maps.Keys(c.Router.Profiles))), cobra.ShellCompDirectiveNoFileComp
	}
}

// toolNames suggests the tools that are stored in the data folder, and with keys, behind a
// tool, the keys of its arguments. No server is started for it.
func toolNames(configs *[]string, keys bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, named := configured(*configs)
		data, err := cmd.Flags().GetString("data")
		if err != nil || data == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if named || c.Text.Trusted(data) == nil {
			c, _ = c.Expand() // entries are stored under their values
		}
		var names []cobra.Completion
		for _, offer := range adapter.StoredOffers(c, data) {
			for _, t := range offer.Tools {
				if len(args) == 0 {
					names = append(names, t.ID)
				} else if keys && t.ID == args[0] {
					_ = wire.Members(wire.Member(t.InputSchema, "properties"), func(key string, _ []byte) bool {
						if !slices.ContainsFunc(args[1:], func(arg string) bool { return strings.HasPrefix(arg, key+"=") }) {
							names = append(names, key+"=")
						}
						return true
					})
				}
			}
		}
		slices.Sort(names)
		if len(args) > 0 {
			return printable(names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return printable(names), cobra.ShellCompDirectiveNoFileComp
	}
}

func both(a, b cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, _ := a(cmd, args, word)
		more, directive := b(cmd, args, word)
		return append(names, more...), directive
	}
}

// configured returns the configuration as text, an empty one if it can't be read. named says that
// --config names it.
func configured(configs []string) (c config.Config, named bool) {
	paths, named, err := configpath.Find(configs)
	if err == nil {
		c, err = config.LoadText(paths...)
	}
	return c, named && err == nil
}

// printable returns the names that a shell could not take for a command to the terminal.
func printable(names []cobra.Completion) []cobra.Completion {
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}
