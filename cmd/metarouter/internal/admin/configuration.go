package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Loaded records that the router uses c from now on.
func (a *API) Loaded(c config.Config) {
	a.mask.Learn(c)
	shown := &configuration{
		Files: append([]string{}, c.Files...), Loaded: time.Now(), Problems: append([]config.Problem{}, c.Problems...), Entries: []entry{},
	}
	for _, s := range c.Servers {
		shown.Entries = append(shown.Entries, entryOf(s))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown != nil {
		shown.Edit = editOf(a.loaded, c)
		shown.Edit.At = shown.Loaded
	}
	a.loaded, a.shown = c, shown
}

// Judged records why the files' present content is not in use; nil if it is in use.
func (a *API) Judged(err error) {
	a.options.Edits.Judge(err)
	why, approve := "", ""
	if w, ok := errors.AsType[*trust.Waiting](err); ok {
		why, approve = w.Untrusted.Error(), w.Command
	} else if err != nil {
		why = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown.Rejected != why || a.shown.Approve != approve {
		shown := *a.shown
		shown.Rejected, shown.Approve = why, approve
		a.shown = &shown
	}
}

// configuration returns the configuration as the page shows it. The pointer changes with it.
func (a *API) configuration() *configuration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown
}

func entryOf(s config.Server) entry {
	e := entry{Name: s.Name, Transport: string(s.Transport), Env: names(s.Env), Headers: names(s.Headers), Settings: settings(s)}
	if s.Command != "" {
		e.Command = commandLine(s)
	}
	if u, err := url.Parse(s.URL); err == nil && s.URL != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		e.URL = secret.URL(u.String(), hidden)
	}
	return e
}

func names[T any](values map[string]T) []string { return slices.Sorted(maps.Keys(values)) }

// commandLine returns the command as a person would type it. It hides words that look like
// secrets, and cuts very long arguments.
func commandLine(s config.Server) string {
	words := []string{commandline.Quote(s.Command)}
	for _, word := range secret.Words(s.Args, hidden) {
		words = append(words, commandline.Quote(shortened(word)))
	}
	return strings.Join(words, " ")
}

const hidden = "…"

// settings returns the settings of an entry that differ from their defaults.
func settings(s config.Server) map[string]string {
	all := make(map[string]string)
	add := func(key string, is bool, value any) {
		if is {
			all[key] = fmt.Sprint(value)
		}
	}
	add("cwd", s.Cwd != "", s.Cwd)
	add("envFile", s.EnvFile != "", s.EnvFile)
	add("inheritEnv", len(s.InheritEnv) > 0, strings.Join(s.InheritEnv, ", "))
	add("killStrays", s.KeepStrays, false)
	add("roots", s.Roots != nil, cmp.Or(strings.Join(s.Roots, ", "), "false"))
	add("disabled", s.Disabled, true)
	add("lazy", s.Lazy, true)
	add("timeout", s.Timeout != 5*time.Minute && s.Timeout != 0, s.Timeout)
	add("startTimeout", s.StartTimeout != 90*time.Second && s.StartTimeout != 0, s.StartTimeout)
	add("idleTimeout", s.IdleTimeout != 0, s.IdleTimeout)
	add("maxConcurrent", s.MaxConcurrent != 8 && s.MaxConcurrent != 0, s.MaxConcurrent)
	add("questionsPerMinute", s.QuestionsPerMinute != 60 && s.QuestionsPerMinute != 0, s.QuestionsPerMinute)
	add("maxResultTokens", s.MaxResultTokens != 0, s.MaxResultTokens)
	add("capabilities", len(s.Capabilities) > 0, strings.Join(s.Capabilities, ", "))
	add("group", s.Group != "", s.Group)
	add("service", s.Service != "", s.Service)
	add("priority", s.Priority != 0, s.Priority)
	add("validate", s.Validate != "on" && s.Validate != "", s.Validate)
	add("retry", s.Retry != "hints" && s.Retry != "", s.Retry)
	add("cache", s.Cache != 0, s.Cache)
	add("tools.allow", len(s.Tools.Allow) > 0 && !slices.Equal(s.Tools.Allow, []string{"*"}), strings.Join(s.Tools.Allow, ", "))
	add("tools.deny", len(s.Tools.Deny) > 0, strings.Join(s.Tools.Deny, ", "))
	var renamed []string
	for _, from := range names(s.Tools.Rename) {
		renamed = append(renamed, from+" → "+s.Tools.Rename[from])
	}
	add("tools.rename", len(renamed) > 0, strings.Join(renamed, ", "))
	return all
}

// editOf returns the differences that an edit of the files made.
func editOf(before, after config.Config) *edit {
	e := &edit{Added: []string{}, Removed: []string{}, Changed: []change{}, Router: !reflect.DeepEqual(before.Router, after.Router),
		Restart: append([]string{}, config.RestartKeys(before.Router, after.Router)...)}
	old := make(map[string]config.Server)
	for _, s := range before.Servers {
		old[s.Name] = s
	}
	for _, s := range after.Servers {
		was, known := old[s.Name]
		delete(old, s.Name)
		if !known {
			e.Added = append(e.Added, s.Name)
		} else if !reflect.DeepEqual(was, s) {
			e.Changed = append(e.Changed, change{s.Name, differences(was, s)})
		}
	}
	for _, s := range before.Servers {
		if _, gone := old[s.Name]; gone {
			e.Removed = append(e.Removed, s.Name)
		}
	}
	return e
}

// differences returns the keys in which two entries of a server differ, with the values of settings. The
// last one says whether the server is started again.
func differences(a, b config.Server) (all []string) {
	differ := func(differs bool, what string) {
		if differs {
			all = append(all, what)
		}
	}
	differ(a.Transport != b.Transport, "type")
	differ(a.Command != b.Command, "command")
	differ(!slices.Equal(a.Args, b.Args), "args")
	differ(a.URL != b.URL, "url")
	all = append(all, differentKeys("env ", a.Env, b.Env)...)
	all = append(all, differentKeys("header ", a.Headers, b.Headers)...)
	before, now := settings(a), settings(b)
	for _, d := range differentKeys("", before, now) {
		key := d[1:]
		all = append(all, fmt.Sprintf("%s %s → %s", key, cmp.Or(before[key], "default"), cmp.Or(now[key], "default")))
	}
	differ(a.Misconfigured == "" && b.Misconfigured != "", "can't be started any more")
	differ(a.Misconfigured != "" && b.Misconfigured == "", "can be started now")
	if len(all) == 0 {
		all = append(all, "other keys")
	}
	starts := func(s config.Server) bool { return !s.Disabled && s.Misconfigured == "" && !s.Self }
	differ(starts(a) && starts(b) && (a.Hash() != b.Hash() || !slices.Equal(a.InheritEnv, b.InheritEnv) || a.KeepStrays != b.KeepStrays), "the server is started again")
	return all
}

// differentKeys returns the keys in which two maps differ, sorted, each after the prefix and "+", "-" or "~".
func differentKeys(prefix string, a, b map[string]string) (all []string) {
	both := maps.Clone(a)
	if both == nil {
		both = make(map[string]string)
	}
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		before, had := a[key]
		after, has := b[key]
		switch {
		case !had:
			all = append(all, prefix+"+"+key)
		case !has:
			all = append(all, prefix+"-"+key)
		case before != after:
			all = append(all, prefix+"~"+key)
		}
	}
	return all
}
