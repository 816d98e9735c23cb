package main

import (
	"io"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// systemPackages writes the packages for Debian and for distributions with RPM.
func (r *release) systemPackages(p platform, program string, docs []file) error {
	for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		// A packager changes the description, so each gets its own.
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "metarouter", Platform: p.os, Arch: p.arch, Version: r.version, MTime: r.time,
			Maintainer: "The metarouter authors <metarouter@users.noreply.github.com>", Vendor: "metarouter",
			Homepage: "https://github.com/mcp-metarouter/metarouter", License: "Apache-2.0", Section: "utils",
			Description:     "One MCP server in front of many.\nIt keeps the MCP servers of a .mcp.json running, finds the right tool for a task and runs it.",
			DisableGlobbing: true,
		})
		info.RPM.BuildHost = "localhost"
		add := func(f file, to string) {
			info.Contents = append(info.Contents, &files.Content{
				Source: f.path, Destination: to, FileInfo: &files.ContentFileInfo{Mode: f.mode(), MTime: r.time},
			})
		}
		add(file{path: program, executable: true}, "/usr/bin/metarouter")
		for _, f := range docs {
			if to := placed(f.name, format); to != "" {
				add(f, to)
			}
		}
		info.Contents = append(info.Contents, &files.Content{
			Destination: "/etc/metarouter", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: os.ModeDir | 0o755, MTime: r.time},
		})
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		err := r.create(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) })
		if err != nil {
			return err
		}
	}
	return nil
}
