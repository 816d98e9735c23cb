package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
)

// TrustNode adds the public key of a node to those that the configuration in use trusts.
func TrustNode(e *Editor, key string) error {
	return trusted(e, func(f file) ([]byte, error) {
		if err := config.CheckNodeKey(key); err != nil {
			return nil, fmt.Errorf("the given text %w", err)
		}
		if file, err := config.NodeKey(); err == nil {
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) { // else there is no key yet
				if own, err := cluster.Key(file); err == nil && own == key {
					return nil, errors.New("this is the key of this machine, which it trusts anyway; run this command on the other one")
				}
			}
		}
		return clients.TrustNode(f.Path, f.Data, key)
	})
}

// DistrustNode removes a key from those that the configuration in use trusts.
func DistrustNode(e *Editor, key string) error {
	return trusted(e, func(f file) ([]byte, error) {
		text, err := clients.DistrustNode(f.Path, f.Data, key)
		if err == nil && string(text) == string(f.Data) {
			err = fmt.Errorf("%s does not trust this key; 'metarouter nodes' shows whom it trusts", f.Path)
		}
		return text, err
	})
}

// trusted edits the file whose "trusted" counts.
func trusted(e *Editor, change func(f file) ([]byte, error)) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	f, err := clusterFile(files)
	if err != nil {
		return err
	}
	if f.text, err = change(f); err != nil {
		return exit.Usage(err)
	}
	used, err := e.apply(f)
	if used && err == nil {
		noteShares(e, pathsOf(files))
	}
	return err
}

// clusterFile returns the file whose "trusted" counts: the last one that has it, else the last one
// that has a "cluster", else the last one.
func clusterFile(files []file) (found file, err error) {
	best := 0
	for _, f := range files {
		n, err := clients.ClusterKeys(f.Path, f.Data)
		if err != nil {
			return f, exit.Usage(err)
		}
		if n < 2 {
			n = 0
		}
		if n >= best {
			found, best = f, n
		}
	}
	return found, nil
}

// noteShares says if no server is shared and none is used, so that trust has no effect yet.
func noteShares(e *Editor, paths []string) {
	c, err := config.LoadText(paths...)
	if err != nil {
		return
	}
	switch in := c.Router.Cluster; {
	case in == nil:
		e.Console.Note(`note: %s names no NATS server yet; write "urls": ["nats://hub:4222"] next to "trusted", or start routers with --cluster URL`, strings.Join(paths, ", "))
	case len(in.Share)+len(in.Use) == 0 && len(in.Trusted) > 0:
		e.Console.Note(`note: nothing is shared or used yet; write "share": ["NAME"] for servers that other machines may use, and "use": ["*@NODE"] for theirs, next to "trusted"`)
	}
}
