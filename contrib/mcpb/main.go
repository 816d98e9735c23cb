// Command mcpb packs metarouter as an MCP bundle, which Claude Desktop installs by a
// click: a zip file of manifest.json and the program for each system.
//
//	go run ./contrib/mcpb -version 1.2.3 -darwin FILE -windows FILE -linux FILE -o metarouter.mcpb
//
// The program for macOS should be a universal one, since a bundle names one program a
// system and not one a processor.
package main

import (
	"archive/zip"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

//go:embed manifest.json
var manifest string

func main() {
	version := flag.String("version", "", "of the bundle, such as 1.2.3")
	darwin := flag.String("darwin", "", "the program for macOS")
	windows := flag.String("windows", "", "the program for Windows")
	linux := flag.String("linux", "", "the program for Linux")
	out := flag.String("o", "metarouter.mcpb", "the bundle")
	flag.Parse()
	err := write(*out, *version, map[string]string{
		"server/metarouter": *darwin, "server/metarouter.exe": *windows, "server/metarouter-linux": *linux,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpb:", err)
		os.Exit(1)
	}
}

func write(path, version string, programs map[string]string) (err error) {
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	return pack(to, version, programs)
}

// pack writes a bundle with the programs, by their paths in it.
func pack(to io.Writer, version string, programs map[string]string) error {
	said, err := versioned(version)
	if err != nil {
		return err
	}
	bundle := zip.NewWriter(to)
	add := func(name string, mode os.FileMode, content io.Reader) error {
		// The same content makes the same bundle, whenever it is packed.
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(mode)
		w, err := bundle.CreateHeader(header)
		if err == nil {
			_, err = io.Copy(w, content)
		}
		return err
	}
	if err := add("manifest.json", 0o644, strings.NewReader(said)); err != nil {
		return err
	}
	for _, name := range []string{"server/metarouter", "server/metarouter.exe", "server/metarouter-linux"} {
		program, err := os.Open(programs[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = add(name, 0o755, program)
		if err := errors.Join(err, program.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return bundle.Close()
}

var (
	versionLine = regexp.MustCompile(`"version": "[^"]*"`)
	semantic    = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// versioned is the manifest of that version.
func versioned(version string) (string, error) {
	version = strings.TrimPrefix(version, "v")
	if !semantic.MatchString(version) {
		return "", fmt.Errorf("-version %q must be like 1.2.3", version)
	}
	return versionLine.ReplaceAllLiteralString(manifest, `"version": "`+version+`"`), nil
}
