package adapter

import (
	"cmp"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
)

// policies returns how calls to each server are made, by its name.
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
		p := execute.Policy{Timeout: s.Timeout, MaxConcurrent: s.MaxConcurrent, MaxResultTokens: s.MaxResultTokens, Cache: s.Cache, Location: placeOf(s), Timeouts: s.ToolTimeouts, ResultTokens: s.ToolResultTokens}
		for pattern, limit := range s.ToolRates {
			if p.Rates == nil {
				p.Rates = make(map[string]execute.Rate, len(s.ToolRates))
			}
			p.Rates[pattern] = execute.Rate(limit)
		}
		switch s.Retry {
		case "never":
			p.Retry = execute.NeverRetry
		case "always":
			p.Retry = execute.AlwaysRetry
		}
		switch s.Validate {
		case config.ValidateWarn:
			p.Validate = execute.Warn
		case config.ValidateOff:
			p.Validate = execute.Off
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
