package edit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// Pin puts the exact versions of the packages of all servers
// into the files of the configuration in use. runs are the npm packages that run, by server,
// of the configuration with the digest examined.
func Pin(ctx context.Context, e *Editor, runs map[string]string, examined string) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	c, err := trustedText(e, files)
	if err != nil {
		return err
	}
	used, err := c.Expand()
	if err != nil {
		return console.Usage(err)
	}
	if c.Text.Digest() != examined {
		runs = nil // other entries may have started them
	}
	pins, err := findPins(ctx, e.Console, c, configfile.ServerNames(c), startOf(used), runs)
	if err != nil {
		return err
	}
	if len(pins) == 0 {
		e.Console.Note("nothing to pin: no entry runs a package without an exact version")
		return nil
	}
	for i := range files {
		for _, s := range c.Servers {
			p, ok := pins[s.Name]
			if !ok {
				continue
			}
			at, _, _, err := fileOf(files, s.Name)
			if err != nil || at.Path != files[i].Path {
				continue
			}
			if files[i].text, err = clients.SetArgument(files[i].Path, files[i].text, s.Name, p.Arg, p.Text); err != nil {
				return err
			}
		}
	}
	e.Console.Note("to be pinned: %s", strings.Join(slices.Sorted(maps.Keys(pins)), ", "))
	var done error
	for _, f := range files {
		if string(f.text) != string(f.Data) {
			_, err := e.apply(f)
			done = errors.Join(done, err)
		}
	}
	if done == nil {
		noteFetch(e, pins)
	}
	return done
}

// noteFetch says that the pinned packages are fetched once more: npx and uvx keep a version that
// is named apart from the newest one.
func noteFetch(e *Editor, pins map[string]pinned) {
	if e.Write && len(pins) > 0 {
		e.Console.Note("note: the next start fetches %s once, which may take a minute; later starts are faster", prose.Count(len(pins), "pinned version"))
	}
}

// trustedText returns the text of the files, whose commands may run. A file that was found is
// not read again: the text that was read for the edit must be approved.
func trustedText(e *Editor, files []file) (config.Config, error) {
	if len(files) == 1 && files[0].found {
		c, err := config.ReadText(files[0].Path, files[0].Data)
		if err != nil {
			return c, console.Usage(err)
		}
		if err := c.Text.Trusted(e.Data); err != nil {
			return c, console.Usage(fmt.Errorf("nothing is pinned: %w", configfile.Explain(err, e.TrustCommand(""))))
		}
		return c, nil
	}
	c, err := config.LoadText(pathsOf(files)...)
	if err != nil {
		return c, console.Usage(configfile.Unreadable(err))
	}
	return c, nil
}

// startOf returns how npm and uv are asked for an entry of a trusted configuration: as its
// server is started.
func startOf(expanded config.Config) func(config.Server) (asking, error) {
	return func(entry config.Server) (asking, error) {
		i := slices.IndexFunc(expanded.Servers, func(s config.Server) bool { return s.Name == entry.Name })
		if i < 0 || len(expanded.Servers[i].Args) != len(entry.Args) {
			return asking{}, errPinned
		}
		s := expanded.Servers[i]
		if s.Misconfigured != "" {
			return asking{}, errors.New(s.Misconfigured)
		}
		start := asking{Command: s.Command, Args: s.Args, Dir: s.Cwd, Env: process.Inherited(os.Environ(), s.InheritEnv, s.Command, s.Args)}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			start.Env = append(start.Env, name+"="+s.Env[name])
		}
		return start, nil
	}
}
