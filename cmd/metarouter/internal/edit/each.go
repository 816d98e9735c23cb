package edit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// each returns the entries that the client's file gets for each server of our configuration, or for those of --only, and the names of
// the entries that go.
func (in *Installation) each() (places []clients.Place, gone []string, err error) {
	if clients.HasURL(in.source) {
		return nil, nil, console.Usage(fmt.Errorf("the entry %q in %s reaches a router by a URL, and --each writes entries that start metarouter on this machine; write entries with /s/NAME behind that URL by hand, or remove that entry first", clients.EntryName, in.source.Path))
	}
	var names, unfit, stale []string
	for _, s := range in.own.Config.Servers {
		switch {
		case s.Disabled || s.Self || s.Misconfigured != "":
		case s.Name == clients.EntryName || strings.Contains(s.Name, ","):
			unfit = append(unfit, s.Name)
		default:
			names = append(names, s.Name)
		}
	}
	for _, name := range in.Only {
		if !slices.Contains(names, name) {
			return nil, nil, console.Usage(fmt.Errorf("--only: there is no server %q that runs; the servers are %s", name, prose.List(names, 20)))
		}
	}
	if in.Only != nil {
		names = in.Only
	}
	for _, o := range in.others {
		if o.Stale {
			stale = append(stale, o.Name)
		}
	}
	in.e.noteNames("note: these servers get no entry", unfit, fmt.Sprintf("; rename them: no entry can be called %q, or have a comma in its name", clients.EntryName))
	in.e.noteNames("note: these entries go", stale, "; metarouter has no such servers any more")
	return clients.Places(names, in.others), append(stale, clients.EntryName), nil
}

// record writes the client's file, and stores what undo needs to go back.
func (in *Installation) record(result []byte) error {
	if !in.e.Write || !in.Each && !in.Replace || string(result) == string(in.file.Data) {
		return in.put(result)
	}
	r, err := clients.Replaced(in.source, !in.file.Exists, result, in.was)
	if err != nil {
		return err
	}
	if err := in.keep(r); err != nil {
		return err
	}
	if err := in.put(result); err != nil {
		return errors.Join(err, in.keep(in.was))
	}
	in.e.Console.Note("'metarouter install %s%s --undo --write' puts back what it replaces", in.source.Client.Name, in.flags())
	return nil
}

// undo puts back the entries that --each and --replace have replaced. records is the file that has the records.
func (in *Installation) undo(records string) error {
	if in.was.Empty() {
		return console.Usage(fmt.Errorf("neither --each nor --replace has changed %s", in.source.Path))
	}
	result, left, err := clients.Undo(in.source, in.was)
	if err != nil {
		return err
	}
	in.e.noteNames("note: entries of "+in.source.Path+" that are others now, and stay", slices.Sorted(maps.Keys(left)), "; the earlier ones stay in "+records)
	if in.was.Missing && len(result) == 0 && in.file.Exists && in.e.Write {
		if err = in.file.Remove(); err == nil {
			in.e.Console.Note("%s is removed: it did not exist before", in.source.Path)
			in.e.Record(audit.Event{Action: audit.Edit, Outcome: audit.OK, Target: in.file.Path, Reason: "removed by a command"})
		}
	} else {
		err = in.put(result)
	}
	if err != nil || !in.e.Write {
		return err
	}
	return in.keep(clients.Record{Entries: left})
}

// keep stores the record of the client's file, unless there is nothing to go back to.
func (in *Installation) keep(r clients.Record) error {
	return editStored(replacedFile, func(all map[string]clients.Record) {
		id := in.file.ID(in.source)
		if all[id] = r; r.Empty() {
			delete(all, id)
		}
	})
}
