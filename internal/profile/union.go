package profile

import (
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// ReadOnly may be chosen like a profile. It allows all servers, prompts and resources, and of the
// tools those that count as read-only. No profile of the configuration can have its name.
const ReadOnly = "@read"

// or separates the profiles of a union.
const or = "|"

// Union returns a choice, such as "dev|ops", that allows the items that any of the profiles allows; ""
// for no profiles. The order of the names does not matter. A name that no profile can have
// gives nothing, also if it is [ReadOnly], made by [Only], or itself a union.
//
// A tool that several of the profiles allow has the fixed arguments and the rule to ask of the one
// that restricts it least: the fewest fixed arguments first, then no question before a question,
// then by name. A profile that does not exist gives nothing.
func Union(names ...string) string {
	if len(names) == 0 {
		return ""
	}
	some := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool {
		return name == "" || !isProfile(name) || strings.Contains(name, or)
	})
	if union := strings.Join(slices.Compact(some), or); union != "" {
		return union
	}
	return or // "" would be no choice, and so no limit
}

// profilesOf returns the names of the profiles in a choice: a profile is its own union. ReadOnly is
// returned too, though it is no profile.
func profilesOf(chosen string) []string {
	return slices.Compact(slices.Sorted(strings.SplitSeq(chosen, or)))
}

// Exists reports whether a choice exists: the profile, one of the profiles of a union, [ReadOnly], or any servers.
func Exists(all map[string]config.Profile, chosen string) bool {
	return !isProfile(chosen) || slices.ContainsFunc(profilesOf(chosen), func(name string) bool { _, ok := all[name]; return ok })
}

// Applying returns the choices that apply to clients with these choices: the same, and the profile
// "default" if there is one and they have chosen no profile. [ReadOnly] limits them, but is no
// choice of a profile. There may be no profile of a name.
func Applying(all map[string]config.Profile, chosen []string) []string {
	if _, ok := all[config.DefaultProfile]; ok && !slices.ContainsFunc(chosen, isProfile) {
		return append(slices.Clip(chosen), config.DefaultProfile)
	}
	return chosen
}

// Existing returns the existing profiles that apply to clients with these choices, by name.
func Existing(all map[string]config.Profile, chosen []string) map[string]config.Profile {
	existing := make(map[string]config.Profile)
	for _, choice := range Applying(all, chosen) {
		if servers := OnlyOf(choice); servers != nil {
			existing[choice] = onlyServers(servers)
			continue
		}
		for _, name := range profilesOf(choice) {
			if p, ok := all[name]; ok {
				existing[name] = p
			}
		}
	}
	return existing
}
