package plan

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// runs names the command or the URL of an entry, without the parts that may be secret.
func runs(s config.Server) string {
	if exe, err := os.Executable(); err == nil && s.Command == exe {
		return "metarouter"
	}
	if s.Transport == config.Stdio {
		return filepath.Base(strings.Join(secret.Words(strings.Fields(s.Command), "…"), " ")) // some entries have arguments in "command"
	}
	if u, err := url.Parse(s.URL); err == nil {
		return u.Host
	}
	return string(s.Transport)
}

// differences returns the keys in which two entries differ, with both values if they
// can't be secrets.
func differences(a, b config.Server) (all []string) {
	differ := func(differs bool, what string) {
		if differs {
			all = append(all, what)
		}
	}
	plain := func(key string, a, b any) {
		differ(a != b, fmt.Sprintf("%s %v → %v", key, a, b))
	}
	plain("type", a.Transport, b.Transport)
	differ(a.Command != b.Command, "command")
	differ(!slices.Equal(a.Args, b.Args), "args")
	differ(a.URL != b.URL, "url")
	for _, d := range differentKeys(a.Env, b.Env) {
		all = append(all, "env "+d)
	}
	for _, d := range differentKeys(a.Headers, b.Headers) {
		all = append(all, "header "+d)
	}
	differ(a.EnvFile != b.EnvFile, "envFile")
	differ(a.Cwd != b.Cwd, "cwd")
	differ(!slices.Equal(a.InheritEnv, b.InheritEnv), "inheritEnv")
	plain("killStrays", !a.KeepStrays, !b.KeepStrays)
	differ(!reflect.DeepEqual(a.Roots, b.Roots), "roots")
	plain("disabled", a.Disabled, b.Disabled)
	plain("lazy", a.Lazy, b.Lazy)
	plain("timeout", a.Timeout, b.Timeout)
	plain("startTimeout", a.StartTimeout, b.StartTimeout)
	plain("idleTimeout", a.IdleTimeout, b.IdleTimeout)
	plain("maxConcurrent", a.MaxConcurrent, b.MaxConcurrent)
	plain("questionsPerMinute", a.QuestionsPerMinute, b.QuestionsPerMinute)
	plain("newTools", a.NewTools, b.NewTools)
	plain("trustHints", a.TrustHints, b.TrustHints)
	plain("group", a.Group, b.Group)
	plain("service", a.Service, b.Service)
	plain("priority", a.Priority, b.Priority)
	plain("validate", a.Validate, b.Validate)
	plain("retry", a.Retry, b.Retry)
	plain("maxResultTokens", a.MaxResultTokens, b.MaxResultTokens)
	plain("cache", a.Cache, b.Cache)
	differ(!slices.Equal(a.Capabilities, b.Capabilities), "capabilities")
	differ(!slices.Equal(a.Tools.Allow, b.Tools.Allow), "tools.allow")
	differ(!slices.Equal(a.Tools.Deny, b.Tools.Deny), "tools.deny")
	differ(!maps.Equal(a.Tools.Rename, b.Tools.Rename), "tools.rename")
	differ(!maps.Equal(a.ToolTimeouts, b.ToolTimeouts), "tools.timeout")
	differ(!maps.Equal(a.ToolResultTokens, b.ToolResultTokens), "tools.maxResultTokens")
	differ(a.Misconfigured == "" && b.Misconfigured != "", "can't be started any more")
	differ(a.Misconfigured != "" && b.Misconfigured == "", "can be started now")
	if len(all) == 0 && !reflect.DeepEqual(a, b) {
		all = append(all, "other keys")
	}
	return all
}

// differentKeys returns the keys in which two maps differ, sorted, each after "+", "-" or "~".
func differentKeys[T any](a, b map[string]T) (all []string) {
	both := make(map[string]T)
	maps.Copy(both, a)
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		before, had := a[key]
		after, has := b[key]
		switch {
		case !had:
			all = append(all, "+"+key)
		case !has:
			all = append(all, "-"+key)
		case !reflect.DeepEqual(before, after):
			all = append(all, "~"+key)
		}
	}
	return all
}
