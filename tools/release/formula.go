package main

import (
	_ "embed"
	"io"
	"path/filepath"
	"slices"
	"text/template"
)

//go:embed metarouter.rb.tmpl
var formulaText string

// formula writes the formula for Homebrew. Without the archives of all systems that
// Homebrew knows, it writes nothing.
func (r *release) formula(platforms []platform) error {
	needed := slices.DeleteFunc(slices.Clone(allPlatforms), func(p platform) bool { return p.os == "windows" })
	sums := make(map[string]string) // by "os_arch"
	for _, p := range needed {
		if !slices.Contains(platforms, p) {
			return nil
		}
	}
	for _, p := range needed {
		sum, err := sumOf(filepath.Join(r.out, archiveName(r.version, p)))
		if err != nil {
			return err
		}
		sums[p.os+"_"+p.arch] = sum
	}
	t, err := template.New("formula").Parse(formulaText)
	if err != nil {
		return err
	}
	return r.create("metarouter.rb", func(w io.Writer) error {
		return t.Execute(w, map[string]any{"Version": r.version, "Tag": "v" + r.version, "Sums": sums})
	})
}
