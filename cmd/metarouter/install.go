package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/internal/clients"
)

// An installation is what the flags of install say.
type installation struct {
	file    string
	write   bool
	replace bool
}

func (a *app) install() *cobra.Command {
	var i installation
	var cmd *cobra.Command
	cmd = leaf("install CLIENT", "Put one entry, ours, into a client's configuration",
		`  metarouter install claude-desktop            # show what would change
  metarouter install claude-desktop --write    # change it, and keep a copy
  metarouter import cursor --write && metarouter install cursor --replace --write`,
		oneClient, func(_ context.Context, args []string) error {
			entry, err := a.entry(cmd.Flags().Changed("data"))
			if err != nil {
				return err
			}
			return a.installInto(args[0], entry, i)
		})
	cmd.Long = `Puts an entry that starts this metarouter, with your own configuration or that of
--config, into the configuration of a client: ` + strings.Join(clients.Names(), ", ") + `.

It prints what would change, with values that may be secret hidden. --write writes
it and keeps a copy of the old file beside it. Everything else in the file stays as
it is, byte for byte.`
	cmd.Flags().StringVar(&i.file, "file", "", "the client's `file`, if it is not the usual one")
	cmd.Flags().BoolVar(&i.write, "write", false, "write the file, and keep a copy of the old one")
	cmd.Flags().BoolVar(&i.replace, "replace", false, "take the client's other servers out, if all of them are in your configuration")
	return cmd
}

func (a *app) installInto(name string, entry clients.Entry, i installation) error {
	c, _ := clients.Find(name)
	source, err := a.meant(c, i.file)
	if err != nil {
		return err
	}
	file, err := clients.Read(source.Path)
	if err != nil {
		return err
	}
	source.Data = file.Data
	if err := notOurs(entry, source.Path); err != nil {
		return err
	}
	own, err := ours(entry.Configs)
	if err != nil {
		return err
	}
	result, err := clients.Install(c, source, entry)
	if err != nil {
		return err
	}
	others, err := clients.Others(c, source, entry.Configs[len(entry.Configs)-1], own)
	if err != nil {
		return err
	}
	if i.replace {
		if result, err = replaced(c, source, result, entry, others); err != nil {
			return err
		}
	}
	a.printDiff(source.Path, file.Data, result)
	a.aboutProject()
	if strings.HasPrefix(entry.Command, filepath.Clean(os.TempDir())+string(filepath.Separator)) {
		a.say("note: %s is in a folder for temporary files; move it, and install again", entry.Command)
	}
	a.aboutOwn(c, entry, own)
	if !i.replace {
		a.aboutOthers(c, others)
	}
	if folder := filepath.Dir(source.Path); firstFile([]string{folder}) == "" {
		a.say("note: there is no folder %s; is %s installed? (--file names another file)", folder, c.Title)
	}
	switch {
	case string(result) == string(file.Data):
		a.say("%s has the entry already, in %s; nothing to do", c.Title, source.Path)
	case !i.write:
		a.notWritten()
	default:
		if err := a.write(file, result, fs.ModePerm); err != nil {
			return err
		}
		a.say("now %s", c.Restart())
	}
	return nil
}

// meant is the file of a client that was named, else the usual one.
func (a *app) meant(c clients.Client, file string) (clients.Source, error) {
	if file == "" {
		p, err := place()
		if err != nil {
			return clients.Source{}, err
		}
		return a.usual(c, p), nil
	}
	path, err := filepath.Abs(file)
	return c.NamedSource(path), err
}

// usual is the user's file of a client: the first whose folder is there, since one that
// was never written to is read all the same. Others that may be meant are named.
func (a *app) usual(c clients.Client, p clients.Place) clients.Source {
	files := c.Files(p)
	file := files[max(slices.IndexFunc(files, func(file string) bool { return firstFile([]string{filepath.Dir(file)}) != "" }), 0)]
	for _, other := range append(files, c.Profiles(p, file)...) {
		if other != file && firstFile([]string{other}) != "" {
			a.say("note: %s has a file at %s too; name it with --file if you use that one", c.Title, other)
		}
	}
	sources := c.UserSources(p, file)
	for _, s := range sources[1:] {
		f, err := clients.Read(s.Path)
		if s.Data = f.Data; err != nil || !f.Exists {
			continue
		}
		if servers, err := clients.Others(c, s, "", clients.Ours{}); err == nil && len(servers) > 0 {
			a.say("note: %s of %s has servers too, which stay", s.Path, c.Title)
		}
	}
	return sources[0]
}

// notOurs refuses to make a router start itself.
func notOurs(e clients.Entry, path string) error {
	theirs, _ := os.Stat(path)
	for _, own := range e.Configs {
		if is, err := os.Stat(own); own == path || err == nil && os.SameFile(is, theirs) {
			return usage(fmt.Errorf("%s is metarouter's own configuration, and an entry in it would start metarouter within metarouter; name another with --file or --config", path))
		}
	}
	return nil
}

// entry is what clients are to start. withData is set where --data was given.
func (a *app) entry(withData bool) (e clients.Entry, err error) {
	if e.Command, err = startable(); err != nil {
		return e, err
	}
	if e.Configs, err = a.ownFiles(); err != nil || !withData {
		return e, err
	}
	data := a.data
	if data != "" {
		data, err = filepath.Abs(data)
	}
	e.Data = &data
	return e, err
}

// replaced is result without the client's other servers, all of which must be in ours.
func replaced(c clients.Client, s clients.Source, result []byte, e clients.Entry, others []clients.Other) ([]byte, error) {
	var names, missing []string
	advice := "mend that"
	for _, o := range others {
		switch {
		case o.Router:
		case o.Ours == "":
			missing = append(missing, fmt.Sprintf("%q is not in yours", o.Name))
			advice = fmt.Sprintf("take over what is not there with 'metarouter import %s --write', and mend the rest", c.Name)
		case len(o.Lacks) > 0:
			missing = append(missing, fmt.Sprintf("%q says %q, and yours does not say the same", o.Name, o.Lacks))
		case o.Broken != "":
			missing = append(missing, fmt.Sprintf("%q does not start as it is in yours: %s", o.Name, o.Broken))
		default:
			names = append(names, o.Name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the servers of %s stay, since something would be lost: %s (%s); %s, or leave --replace out, which adds metarouter beside them",
			c.Title, strings.Join(missing, "; "), e.Configs[len(e.Configs)-1], advice)
	}
	s.Data = result
	return clients.Without(s, names)
}

// aboutOwn says where the entry would start a router of nothing.
func (a *app) aboutOwn(c clients.Client, e clients.Entry, own clients.Ours) {
	switch {
	case len(own.Files) == 0:
		a.say("note: %s does not exist yet, so metarouter would not start; make it with 'metarouter import %s --write'", strings.Join(e.Configs, ", "), c.Name)
	case len(own.Config.Servers) == 0:
		a.say("note: %s has no servers yet; 'metarouter import %s --write' takes over those of %s", strings.Join(e.Configs, ", "), c.Name, c.Title)
	}
}

// aboutOthers says what becomes of the client's other servers.
func (a *app) aboutOthers(c clients.Client, others []clients.Other) {
	var twice, alone, routers []string
	for _, o := range others {
		switch {
		case o.Router:
			routers = append(routers, o.Name)
		case o.Ours != "":
			twice = append(twice, o.Name)
		default:
			alone = append(alone, o.Name)
		}
	}
	say := func(what string, names []string, format string, args ...any) {
		if len(names) > 0 {
			a.say("note: %s: %s; %s", what, strings.Join(names, ", "), fmt.Sprintf(format, args...))
		}
	}
	say("metarouter is started by further entries", routers, "remove them")
	say("these would run twice, for "+c.Title+" and for metarouter", twice, "--replace takes them out of %s's file", c.Title)
	say("not in metarouter yet", alone, "'metarouter import %s --write' takes them over", c.Name)
}
