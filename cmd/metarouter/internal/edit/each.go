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

// each writes an entry for each server of our configuration, or for those of --only, into the client's file.
func (in *installation) each(records storedFile[clients.Record]) error {
	var names, unfit []string
	for _, s := range in.own.Config.Servers {
		if !s.Disabled && !s.Self && s.Misconfigured == "" {
			names = append(names, s.Name)
		}
	}
	for _, name := range in.options.Only {
		if !slices.Contains(names, name) {
			return console.Usage(fmt.Errorf("--only: there is no server %q that runs; the servers are %s", name, prose.List(names, 20)))
		}
	}
	if in.options.Only != nil {
		names = in.options.Only
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		is := name == clients.EntryName || strings.Contains(name, ",")
		if is {
			unfit = append(unfit, fmt.Sprintf("%q", name))
		}
		return is
	})
	if len(unfit) > 0 {
		in.e.Console.Note("note: no entry for %s: a name with a comma, or the name %q, can't be that of an entry; rename the server", strings.Join(unfit, ", "), clients.EntryName)
	}
	places, kept, stale := clients.Places(names, in.others)
	if len(kept) > 0 {
		in.e.Console.Note("note: %s has other servers of these names, which stay: %s; 'metarouter import %s%s' compares them", in.client.Title, strings.Join(kept, ", "), in.client.Name, in.flags())
	}
	if len(stale) > 0 {
		in.e.Console.Note("note: these entries show servers that metarouter has no more, and go: %s", strings.Join(stale, ", "))
	}
	if !in.client.Rewrites() {
		var all []string
		for _, p := range places {
			in.entry.Only = p.Server
			lines, err := clients.Lines(in.client, in.source, p.Name, in.entry)
			if err != nil {
				return err
			}
			all = append(all, lines...)
		}
		return in.printLines(all, fmt.Sprintf("each entry of the same name, and of %q,", clients.EntryName))
	}
	result, err := clients.InPlace(in.client, in.source, in.entry, places, stale)
	if err != nil {
		return err
	}
	in.show(result)
	in.noteOwnConfiguration(false)
	in.noteDifferences()
	return in.record(records, result)
}

// record writes the client's file, and stores what undo needs to go back.
func (in *installation) record(records storedFile[clients.Record], result []byte) error {
	if !in.e.Write || string(result) == string(in.file.Data) {
		return in.put(result)
	}
	id := in.file.ID(in.source)
	was := records.all[id]
	var err error
	if records.all[id], err = clients.Replaced(in.client, in.source, !in.file.Exists, result, was); err != nil {
		return err
	}
	if err = records.write(); err != nil {
		return err
	}
	in.e.Console.Note("'metarouter install %s%s --undo --write' puts back what it replaces", in.client.Name, in.flags())
	if err = in.put(result); err != nil {
		records.all[id] = was
		return errors.Join(err, records.write())
	}
	return nil
}

// undo puts back what --each and --replace have replaced.
func (in *installation) undo(records storedFile[clients.Record]) error {
	id := in.file.ID(in.source)
	was := records.all[id]
	if len(was.Entries) == 0 {
		return console.Usage(fmt.Errorf("neither --each nor --replace has changed %s", in.source.Path))
	}
	result, left, err := clients.Undo(in.client, in.source, was)
	if err != nil {
		return err
	}
	in.e.printDiff(clients.Diff(in.source.Path, in.file.Data, result))
	if len(left) > 0 {
		in.e.Console.Note("note: %s has other entries of these names now, which stay: %s; what they had before stays in %s", in.source.Path, strings.Join(slices.Sorted(maps.Keys(left)), ", "), records.path)
	}
	if was.Missing && len(result) == 0 && in.file.Exists && in.e.Write {
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
	if records.all[id] = (clients.Record{Entries: left}); len(left) == 0 {
		delete(records.all, id)
	}
	return records.write()
}
