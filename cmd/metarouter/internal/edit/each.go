package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// installEach writes an entry for each server of our configuration, or for those of only, into a client's file.
func installEach(e *Editor, c clients.Client, source clients.Source, file clients.File, entry clients.RouterEntry, own clients.Ours, others []clients.Other, only []string) error {
	var names []string
	for _, s := range own.Config.Servers {
		if !s.Disabled && !s.Self && s.Misconfigured == "" {
			names = append(names, s.Name)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return console.Usage(fmt.Errorf("--only: there is no server %q that runs; the servers are %s", name, prose.List(names, 20)))
		}
	}
	if only != nil {
		names = only
	}
	places, kept := clients.Places(names, others)
	if len(kept) > 0 {
		e.Console.Note("note: %s has other servers of these names, which stay: %s; 'metarouter import %s' compares them", c.Title, strings.Join(kept, ", "), c.Name)
	}
	if !c.Rewrites() {
		var all []string
		for _, p := range places {
			entry.Only = p.Server
			lines, err := clients.Lines(c, source, p.Name, entry)
			if err != nil {
				return err
			}
			all = append(all, lines...)
		}
		return printLines(e, c, source, all, fmt.Sprintf("each entry of the same name, and of %q,", clients.EntryName))
	}
	result, err := clients.InPlace(c, source, entry, places)
	if err != nil {
		return err
	}
	return writeEntries(e, c, source, file, result, true, func() { noteOwnConfiguration(e, c, entry, own, false) })
}

// writeEntries shows the change of a client's file, and writes it. If it replaces entries of the client's own, it stores those first, for
// undo. note prints notes on the entries.
func writeEntries(e *Editor, c clients.Client, source clients.Source, file clients.File, result []byte, replaces bool, note func()) error {
	e.printDiff(clients.Diff(source.Path, file.Data, result))
	e.noteProjectFile()
	note()
	if replaces && e.Write && string(result) != string(file.Data) {
		var failed error
		_, err := stored(replacedFile, source.ID(), func(was map[string]string) map[string]string {
			was, failed = clients.Replaced(c, source, result, was)
			return was
		})
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		e.Console.Note("'metarouter install %s --undo --write' puts back what it replaces", c.Name)
	}
	return writeEntry(e, c, file, result)
}

// undo puts back what installEach has replaced.
func undo(e *Editor, c clients.Client, source clients.Source, file clients.File) error {
	was, err := stored(replacedFile, source.ID(), nil)
	if err != nil {
		return err
	}
	if len(was) == 0 {
		return console.Usage(fmt.Errorf("neither --each nor --replace has changed %s", source.Path))
	}
	result, err := clients.Undo(c, source, was)
	if err != nil {
		return err
	}
	e.printDiff(clients.Diff(source.Path, file.Data, result))
	if err := writeEntry(e, c, file, result); err != nil || !e.Write {
		return err
	}
	_, err = stored(replacedFile, source.ID(), func(map[string]string) map[string]string { return nil })
	return err
}
