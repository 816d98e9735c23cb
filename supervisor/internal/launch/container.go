package launch

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/process"
)

// containerLabel is a label of each container, with the name of its server.
const containerLabel = "metarouter.server"

// contain returns the command such that the container that it runs, if any, can be stopped: with
// options that write the container's ID to a new file, and a label. A command for which it is not
// certain that it runs a container is returned as it is.
//
// The process of such a command is only a client. The container may go on when the client is killed.
func contain(c process.Command, entry config.Server) process.Command {
	run, _ := commandline.ContainerOf(entry.Command, c.Args)
	if run == nil {
		return c
	}
	dir := c.Dir
	if dir == "" {
		dir, _ = os.Getwd() // the guard process is elsewhere
	}
	hold := &process.Container{File: run.CIDFile, Path: c.Path, Dir: dir, Env: c.Env, Commands: run.Stop(c.Args)}
	added := []string{"--label", containerLabel + "=" + entry.Name}
	if hold.File == "" {
		folder, err := os.MkdirTemp(folderOfIDs(c.Path), "metarouter-container-") // closed to other users
		if err != nil {
			return c
		}
		hold.File = filepath.Join(folder, "id")
		hold.Remove = []string{hold.File, folder}
		added = append(added, "--cidfile", hold.File)
	} else if !filepath.IsAbs(hold.File) {
		hold.File = filepath.Join(dir, hold.File)
	}
	if _, err := os.Lstat(hold.File); err == nil {
		hold = nil // it names another container, for which the client does not start
	}
	c.Container = hold
	c.Args = slices.Concat(c.Args[:run.At+1], added, c.Args[run.At+1:])
	return c
}

// folderOfIDs returns the folder for files that the client writes, "" for the usual one. The client of
// a snap has a folder for temporary files of its own, which no other program sees.
func folderOfIDs(client string) string {
	file, err := filepath.EvalSymlinks(client)
	home, _ := os.UserHomeDir()
	if err != nil || filepath.Base(file) != "snap" {
		return ""
	}
	return filepath.Join(home, "snap", filepath.Base(client), "common")
}
