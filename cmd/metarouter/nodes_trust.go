package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
)

func newNodesTrustCommand(env *environment) *cobra.Command {
	return newNodeEdit(env, "trust", "Trust the node of another machine",
		`Adds the public key of a node to "trusted" of "cluster" in the configuration in use. That
node may then call the servers that "share" names, and its servers may be used if "use"
names them. It has to trust this node, too. 'metarouter nodes key' prints a node's key there.`,
		trustNode)
}

func newNodesUntrustCommand(env *environment) *cobra.Command {
	return newNodeEdit(env, "untrust", "Trust the node of another machine no longer",
		`Removes the public key of a node from "trusted" of "cluster" in the configuration in use.
A running router ignores the node as soon as the file is written.`,
		untrustNode)
}

// newNodeEdit returns a command that edits which nodes are trusted.
func newNodeEdit(env *environment, verb, short, long string, edit func(f edited, key string) ([]byte, error)) *cobra.Command {
	var write bool
	const example = "UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
	cmd := newCommand(verb+" KEY", short, fmt.Sprintf("  metarouter nodes %s %s\n  metarouter nodes %[1]s %[2]s --write", verb, example),
		exactly("name the public key of one node"), func(_ context.Context, args []string) error {
			return runNodeEdit(env, args[0], write, edit)
		})
	cmd.Long = long + `

It prints what would change. --write writes the file and keeps a copy of the old one next
to it. Everything else in the file stays as it is, byte for byte. Of several files, the one
whose "trusted" counts is edited.`
	addWriteFlag(cmd, &write)
	return cmd
}

func runNodeEdit(env *environment, key string, write bool, edit func(f edited, key string) ([]byte, error)) error {
	files, err := filesInUse(env)
	if err != nil {
		return err
	}
	f, err := clusterFile(files)
	if err != nil {
		return err
	}
	if f.text, err = edit(f, key); err != nil {
		return exit.Usage(err)
	}
	used, err := f.apply(env, write)
	if used && err == nil {
		noteShares(env, files)
	}
	return err
}

// trustNode adds a key to those that a file trusts.
func trustNode(f edited, key string) ([]byte, error) {
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
}

// untrustNode removes a key from those that a file trusts.
func untrustNode(f edited, key string) ([]byte, error) {
	text, err := clients.DistrustNode(f.Path, f.Data, key)
	if err == nil && string(text) == string(f.Data) {
		err = fmt.Errorf("%s does not trust this key; 'metarouter nodes' shows whom it trusts", f.Path)
	}
	return text, err
}

// clusterFile returns the file whose "trusted" counts: the last one that has it, else the last one
// that has a "cluster", else the last one.
func clusterFile(files []edited) (file edited, err error) {
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
			file, best = f, n
		}
	}
	return file, nil
}

// noteShares says if no server is shared and none is used, so that trust has no effect yet.
func noteShares(env *environment, files []edited) {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	c, err := config.LoadText(paths...)
	if err != nil {
		return
	}
	switch in := c.Router.Cluster; {
	case in == nil:
		env.Note(`note: %s names no NATS server yet; write "urls": ["nats://hub:4222"] next to "trusted", or start routers with --cluster URL`, strings.Join(paths, ", "))
	case len(in.Share)+len(in.Use) == 0 && len(in.Trusted) > 0:
		env.Note(`note: nothing is shared or used yet; write "share": ["NAME"] for servers that other machines may use, and "use": ["*@NODE"] for theirs, next to "trusted"`)
	}
}
