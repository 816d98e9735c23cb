package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// checkServer returns an error if no server has the name, of the configuration or maybe of another
// node.
func checkServer(c config.Config, name string) error {
	if _, err := configfile.Server(c, name); err != nil && !configfile.MayBeElsewhere(c, name) {
		return absent(err)
	}
	return nil
}

// resolve finds the tool that a name of any form means. It starts the servers that may have the
// tool only if the stored catalog does not know the name.
func (a *API) resolve(q *query, name string) (*registry.NormalizedTool, error) {
	names := func() *server.ToolNames { return a.exposed(q.scope.Snapshot()) }
	t, err := server.Resolve(q.Context(), q.scope, name, names, func() bool { return q.awaitTools() == nil })
	if err, ok := errors.AsType[*server.NameError](err); ok && q.Context().Err() == nil {
		return nil, absent(unknownTool(q.scope.Snapshot(), q.visible(), name, err))
	}
	return t, err
}

// unknownTool adds to a [server.NameError] what to do about it.
func unknownTool(s *registry.Snapshot, c config.Config, name string, err *server.NameError) error {
	for _, entry := range c.Servers {
		for _, d := range s.Offer(entry.Name).Dropped {
			if id := registry.ID(entry.Name, d.Name); d.Kind == registry.KindTool && (name == d.Name || name == id) {
				return fmt.Errorf("%s is not offered; 'metarouter why %s' says why", id, id)
			}
		}
	}
	if len(err.Ambiguous) > 0 {
		return err
	}
	unknown, advice := error(err), []string{"'metarouter tools' lists all tools", "'metarouter search WORDS' finds some"}
	if server, ok := noServer(c, name); ok {
		unknown = fmt.Errorf("no server is named %q: %w", server, err)
	} else {
		advice = append(enablings(c), advice...)
	}
	end := ";"
	if len(err.Nearest) > 0 {
		end = "" // it ends with a question mark
	}
	return fmt.Errorf("%w%s %s", unknown, end, strings.Join(advice, ", "))
}

// enablings says how to enable the first disabled servers, which may have any tool.
func enablings(c config.Config) (advice []string) {
	const most = 3
	for _, entry := range c.Servers {
		if entry.Disabled && len(advice) < most {
			command := "enable " + entry.Name + " --write"
			if entry.ByHand {
				command = "restart " + entry.Name
			}
			advice = append(advice, fmt.Sprintf("'metarouter %s' enables server %q, which is disabled and may have it", command, entry.Name))
		}
	}
	return advice
}

// noServer returns what stands before the colon of a name, if no server has that name.
func noServer(c config.Config, name string) (server string, ok bool) {
	server, tool, ok := strings.Cut(name, ":")
	if !ok || server == "" || tool == "" || strings.HasPrefix(tool, "/") || slices.Contains(configfile.ServerNames(c), server) {
		return "", false
	}
	if prefix := c.Router.Gateway.Prefix; prefix != "" && strings.HasPrefix(server, prefix) {
		return "", false
	}
	return server, true
}
