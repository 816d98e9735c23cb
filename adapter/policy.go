package adapter

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
)

// policies returns the policies of servers, by name.
func policies(servers []config.Server) map[string]execute.Policy {
	ranked := slices.Clone(servers)
	slices.SortStableFunc(ranked, func(a, b config.Server) int { return cmp.Compare(b.Priority, a.Priority) })
	groups, twins := make(map[string][]string), make(map[string][]config.Server)
	for _, s := range ranked {
		if s.Group != "" {
			groups[s.Group] = append(groups[s.Group], s.Name)
		}
		twins[s.Hash()] = append(twins[s.Hash()], s)
	}
	all := make(map[string]execute.Policy, len(servers))
	for _, s := range servers {
		p := execute.Policy{Timeout: s.Timeout, MaxConcurrent: s.MaxConcurrent, MaxResultTokens: s.MaxResultTokens, Cache: s.Cache, Location: placeOf(s), Timeouts: s.ToolTimeouts, ResultTokens: s.ToolResultTokens, Rates: s.ToolRates}
		setModes(&p, s.Retry, s.Validate)
		if s.Transport == config.Scripts { // each script has its own bounds, and its calls are what may be lost
			p.Timeout, p.MaxConcurrent, p.Retry, p.MustCheck = 0, 0, execute.AlwaysRetry, true
		}
		for _, name := range groups[s.Group] {
			if name != s.Name {
				p.StandIns = append(p.StandIns, name)
			}
		}
		for _, o := range twins[s.Hash()] {
			if o.Name != s.Name && !slices.Contains(p.StandIns, o.Name) && slices.Equal(o.InheritEnv, s.InheritEnv) && o.SameSecrets(s) {
				p.Twins = append(p.Twins, o.Name)
			}
		}
		all[s.Name] = p
	}
	return all
}

// setModes sets the modes of a policy by the keys "retry" and "validate".
func setModes(p *execute.Policy, retry, validate string) {
	p.Retry = map[string]execute.Retry{"never": execute.NeverRetry, "always": execute.AlwaysRetry}[retry]
	p.Validate = map[string]execute.Validate{"warn": execute.Warn, "off": execute.Off}[validate]
}

// placeOf returns the folders and hosts where a server works: folders from its arguments and cwd,
// hosts from its URL, arguments and variables.
func placeOf(s config.Server) *execute.Location {
	base := s.Cwd
	if base == "" {
		base, _ = os.Getwd() // without it, relative folders are not known
	}
	values := []string{s.Cwd, s.URL}
	for _, arg := range s.Args {
		if arg == "." || arg == ".." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
			arg = filepath.Join(base, arg)
		}
		values = append(values, arg)
	}
	for _, value := range s.Env {
		if strings.Contains(value, "://") {
			values = append(values, value)
		}
	}
	return execute.NewLocation(s.Priority, values)
}
