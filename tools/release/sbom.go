package main

import (
	"debug/buildinfo"
	"io"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// bom writes the list of the modules in the program (SBOM), next to its archive.
func (r *release) bom(p platform, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	own := component(&info.Main)
	own.Type, own.Version = cyclonedx.ComponentTypeApplication, r.version
	own.BOMRef = "pkg:golang/" + info.Main.Path + "@" + r.version
	own.PackageURL = own.BOMRef
	components := []cyclonedx.Component{component(&debug.Module{Path: "std", Version: info.GoVersion})}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m))
	}
	list := cyclonedx.NewBOM()
	list.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z07:00"), Component: &own}
	list.Components = &components
	return r.create(archiveName(r.version, p)+".sbom.json", func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(list)
	})
}

func component(m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
}
