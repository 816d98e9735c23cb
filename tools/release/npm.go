package main

import (
	_ "embed"
	"encoding/json"
	"io"
	"strings"
)

// The packages for npm: "metarouter" has a script that starts the program, which is in the
// package of the platform. npm installs that one alone, since the packages name their
// system and processor.

//go:embed npm/metarouter.js
var npmScript []byte

//go:embed npm/README.md
var npmReadme []byte

// npmScope is the scope of the platforms' packages.
const npmScope = "@mcp-metarouter/"

// npmNames are npm's names of systems and processors.
var npmNames = strings.NewReplacer("windows", "win32", "amd64", "x64", "/", "-")

// An npmPackage is a package.json.
type npmPackage struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	License      string            `json:"license"`
	Homepage     string            `json:"homepage"`
	Repository   map[string]string `json:"repository"`
	Keywords     []string          `json:"keywords,omitempty"`
	Bin          map[string]string `json:"bin,omitempty"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	PreferUnplug bool              `json:"preferUnplugged,omitempty"` // Yarn runs no program in a zip file
	Engines      map[string]string `json:"engines,omitempty"`
	Optional     map[string]string `json:"optionalDependencies,omitempty"`
}

func (r *release) npmPackage(name, description string) npmPackage {
	return npmPackage{
		Name: name, Version: r.version, Description: description, License: "Apache-2.0",
		Homepage:   "https://github.com/mcp-metarouter/metarouter",
		Repository: map[string]string{"type": "git", "url": "git+https://github.com/mcp-metarouter/metarouter.git"},
	}
}

// npmMain writes the package "metarouter".
func (r *release) npmMain() error {
	p := r.npmPackage("metarouter", "One MCP server in front of many")
	p.Keywords = []string{"mcp", "mcp-server", "router", "gateway", "aggregator"}
	p.Bin = map[string]string{"metarouter": "bin/metarouter.js"}
	p.Engines = map[string]string{"node": ">=18"}
	p.Optional = make(map[string]string)
	for _, target := range allPlatforms {
		p.Optional[npmScope+npmNames.Replace(target.String())] = r.version
	}
	return r.npm("metarouter", p,
		file{name: "bin/metarouter.js", data: npmScript, executable: true}, file{name: "README.md", data: npmReadme})
}

// npmPlatform writes the package with the program for a platform.
func (r *release) npmPlatform(target platform, program string) error {
	name := npmNames.Replace(target.String())
	p := r.npmPackage(npmScope+name, "The program metarouter for "+target.String()+"; install the package metarouter instead")
	system, cpu, _ := strings.Cut(name, "-")
	p.OS, p.CPU, p.PreferUnplug = []string{system}, []string{cpu}, true
	return r.npm("metarouter-"+name, p, file{name: "bin/" + target.program(), path: program, executable: true})
}

// npm writes a package as 'npm pack' does.
func (r *release) npm(name string, p npmPackage, files ...file) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	license := file{name: "LICENSE", path: r.root + "/LICENSE"}
	files = append([]file{{name: "package.json", data: text}, license}, files...)
	for i := range files {
		files[i].name = "package/" + files[i].name
	}
	return r.create("npm-"+name+"-"+r.version+".tgz", func(w io.Writer) error { return writeTar(w, r.time, files) })
}
