package main

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"
)

//go:embed manifest.json
var manifest string

var versionLine = regexp.MustCompile(`"version": "[^"]*"`)

// bundle writes the MCP bundle, which Claude Desktop installs with one click: a zip file
// with manifest.json and the program for each system. Without all programs that it needs,
// it writes nothing.
func (r *release) bundle(programs map[platform]string) error {
	amd64, arm64 := programs[platform{"darwin", "amd64"}], programs[platform{"darwin", "arm64"}]
	linux, windows := programs[platform{"linux", "amd64"}], programs[platform{"windows", "amd64"}]
	if amd64 == "" || arm64 == "" || linux == "" || windows == "" {
		return nil
	}
	mac, err := universal(amd64, arm64)
	if err != nil {
		return err
	}
	return r.create("metarouter.mcpb", func(w io.Writer) error {
		return writeZip(w, r.time, []file{
			{name: "manifest.json", data: []byte(versionLine.ReplaceAllLiteralString(manifest, `"version": "`+r.version+`"`))},
			{name: "server/metarouter", data: mac, executable: true},
			{name: "server/metarouter.exe", path: windows, executable: true},
			{name: "server/metarouter-linux", path: linux, executable: true},
		})
	})
}

// The header of a universal program (<mach-o/fat.h>).
const (
	fatMagic     = 0xcafebabe
	fatAlignment = 14 // as a power of two: pages of arm64
)

// universal joins programs for macOS to one, since a bundle names one program for each
// system and not one for each processor.
func universal(paths ...string) ([]byte, error) {
	type arch struct{ CPU, Subtype, Offset, Size, Align uint32 }
	var table []arch
	var body bytes.Buffer
	start := 1 << fatAlignment
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if len(data) < 12 || binary.LittleEndian.Uint32(data) != 0xfeedfacf {
			return nil, fmt.Errorf("%s is no program for macOS", path)
		}
		for (start+body.Len())%(1<<fatAlignment) != 0 {
			body.WriteByte(0)
		}
		table = append(table, arch{
			CPU: binary.LittleEndian.Uint32(data[4:]), Subtype: binary.LittleEndian.Uint32(data[8:]),
			Offset: uint32(start + body.Len()), Size: uint32(len(data)), Align: fatAlignment,
		})
		body.Write(data)
	}
	var all bytes.Buffer
	for _, part := range []any{uint32(fatMagic), uint32(len(table)), table} {
		if err := binary.Write(&all, binary.BigEndian, part); err != nil {
			return nil, err
		}
	}
	all.Write(make([]byte, start-all.Len()))
	all.Write(body.Bytes())
	return all.Bytes(), nil
}
