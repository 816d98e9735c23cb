// Command mcpb packs metarouter as an MCP bundle, which Claude Desktop installs with one
// click: a zip file with manifest.json and the program for each system.
//
//	go run ./contrib/mcpb -version 1.2.3 -darwin FILE -windows FILE -linux FILE -o metarouter.mcpb
//
// The program for macOS must be a universal one, because a bundle names one program for
// each system and not one for each processor.
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
	version := flag.String("version", "", "version of the bundle, such as 1.2.3")
	darwin := flag.String("darwin", "", "`file` of the program for macOS")
	windows := flag.String("windows", "", "`file` of the program for Windows")
	linux := flag.String("linux", "", "`file` of the program for Linux")
	out := flag.String("o", "metarouter.mcpb", "`file` to write the bundle to")
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

// pack writes a bundle with the programs. The keys of programs are their paths in the
// bundle.
func pack(to io.Writer, version string, programs map[string]string) error {
	text, err := manifestOf(version)
	if err != nil {
		return err
	}
	bundle := zip.NewWriter(to)
	add := func(name string, mode os.FileMode, content io.Reader) error {
		// A fixed time makes two bundles of the same content equal.
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(mode)
		w, err := bundle.CreateHeader(header)
		if err == nil {
			_, err = io.Copy(w, content)
		}
		return err
	}
	if err := add("manifest.json", 0o644, strings.NewReader(text)); err != nil {
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

// manifestOf returns the manifest of a version.
func manifestOf(version string) (string, error) {
	version = strings.TrimPrefix(version, "v")
	if !semantic.MatchString(version) {
		return "", fmt.Errorf("-version %q must be like 1.2.3", version)
	}
	return versionLine.ReplaceAllLiteralString(manifest, `"version": "`+version+`"`), nil
}
