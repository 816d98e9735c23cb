package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// completions are the shells with the file names of their completion scripts.
var completions = []struct{ shell, file string }{
	{"bash", "metarouter.bash"}, {"zsh", "_metarouter"}, {"fish", "metarouter.fish"}, {"powershell", "metarouter.ps1"},
}

// document returns what archives and packages have next to the program: completion
// scripts, manual pages, the licence and other texts. A program of this machine's
// platform writes the first two.
func (r *release) document(ctx context.Context) ([]file, error) {
	program, err := r.compile(ctx, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var docs []file
	for _, c := range completions {
		text, err := exec.CommandContext(ctx, program, "completion", c.shell).Output()
		if err != nil {
			return nil, err
		}
		if docs, err = r.generated(docs, "completions/"+c.file, text); err != nil {
			return nil, err
		}
	}
	manual := filepath.Join(r.work, "man")
	if err := exec.CommandContext(ctx, program, "man", manual).Run(); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(manual, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		if docs, err = r.generated(docs, "manpages/"+filepath.Base(page)+".gz", compressed(text)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", ".mcp.json.example",
		"contrib/systemd/system/metarouter.service", "contrib/systemd/user/metarouter.service",
	} {
		docs = append(docs, file{name: name, path: filepath.Join(r.root, name)})
	}
	return docs, nil
}

// generated writes a text on its way into the release and appends it to docs.
func (r *release) generated(docs []file, name string, text []byte) ([]file, error) {
	path := filepath.Join(r.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return append(docs, file{name: name, path: path}), os.WriteFile(path, text, 0o644)
}

// compressed returns text in gzip's format, without a time.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	w.Write(text)                                         // a buffer takes all
	w.Close()
	return b.Bytes()
}

// placed returns where a Debian or RPM package has a text of the release, or "".
func placed(name, packager string) string {
	base := name[strings.LastIndex(name, "/")+1:]
	switch {
	case name == "LICENSE":
		return "/usr/share/doc/metarouter/copyright"
	case name == ".mcp.json.example":
		return "/usr/share/doc/metarouter/mcp.json.example"
	case strings.HasPrefix(name, "manpages/"):
		return "/usr/share/man/man1/" + base
	case name == "contrib/systemd/system/metarouter.service":
		return "/usr/lib/systemd/system/metarouter.service"
	case name == "contrib/systemd/user/metarouter.service":
		return "/usr/lib/systemd/user/metarouter.service"
	case base == "metarouter.bash":
		return "/usr/share/bash-completion/completions/metarouter"
	case base == "metarouter.fish":
		return "/usr/share/fish/vendor_completions.d/metarouter.fish"
	case base == "_metarouter" && packager == "deb":
		return "/usr/share/zsh/vendor-completions/_metarouter"
	case base == "_metarouter":
		return "/usr/share/zsh/site-functions/_metarouter"
	}
	return ""
}
