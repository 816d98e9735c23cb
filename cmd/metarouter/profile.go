package main

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
)

// A profileFlag is the value of --profile; nil if the flag is not given.
type profileFlag struct{ name **string }

// Set implements [pflag.Value].
func (f profileFlag) Set(name string) error { *f.name = &name; return nil }

// String implements [pflag.Value].
func (f profileFlag) String() string {
	if f.name == nil || *f.name == nil {
		return ""
	}
	return **f.name
}

// Type implements [pflag.Value].
func (profileFlag) Type() string { return "profile" }

// addProfileFlag gives cmd the flag --profile.
func addProfileFlag(env *environment, cmd *cobra.Command) {
	addNamedProfileFlag(env, cmd, "Show and use only what the `profile` of this name allows, as its clients do; \"\" is everything. (default the profile \"default\" if there is one, else everything)")
}

// addNamedProfileFlag gives cmd the flag --profile with a meaning of its own.
func addNamedProfileFlag(env *environment, cmd *cobra.Command, usage string) {
	cmd.Flags().Var(profileFlag{&env.profile}, "profile", usage)
}

// checkProfile returns an error if the configuration lacks the profile.
func checkProfile(c config.Config, name *string) error {
	if name == nil || *name == "" {
		return nil
	}
	if _, ok := c.Router.Profiles[*name]; !ok {
		return exit.Usage(configfile.UnknownName("profile", *name, slices.Sorted(maps.Keys(c.Router.Profiles))))
	}
	return nil
}

// withScope has do carry out a command as clients of the profile that --profile names. with is
// withRouter or another function that runs a router. The configuration that do gets has only
// the servers that the profile allows.
func withScope(ctx context.Context, env *environment, c config.Config, with routerRunner, do func(context.Context, *adapter.Scope, config.Config) error) error {
	if err := checkProfile(c, env.profile); err != nil {
		return err
	}
	return with(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		scope := scopeOf(r, env.profile)
		return do(ctx, scope, visible(c, scope))
	})
}

// A routerRunner runs do with a router of the configuration.
type routerRunner func(ctx context.Context, env *environment, c config.Config, do func(context.Context, *adapter.Parts) error) error

// scopeOf returns the router as clients of the profile see it; nil is that of clients without.
func scopeOf(r *adapter.Parts, profile *string) *adapter.Scope {
	switch {
	case profile == nil:
		return r.Scope()
	case *profile == "":
		return r.Everything()
	}
	return r.Scope(*profile)
}

// namedScope returns the router as clients of the profile see it; nil is everything.
func namedScope(r *adapter.Parts, profile *string) *adapter.Scope {
	if profile == nil {
		return r.Everything()
	}
	return scopeOf(r, profile)
}

// visible returns the configuration with the servers of the scope alone.
func visible(c config.Config, s *adapter.Scope) config.Config {
	seen := make(map[string]bool)
	for _, info := range s.Servers() {
		seen[info.Name] = true
	}
	c.Servers = slices.DeleteFunc(slices.Clone(c.Servers), func(entry config.Server) bool { return !seen[entry.Name] })
	return c
}
