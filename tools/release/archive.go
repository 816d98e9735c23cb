package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A file goes into an archive. Its content is data, or the content of the file at path.
type file struct {
	name       string // slash-separated
	data       []byte
	path       string
	executable bool
}

// content returns the content of the file.
func (f file) content() ([]byte, error) {
	if f.path != "" {
		return os.ReadFile(f.path)
	}
	return f.data, nil
}

func (f file) mode() os.FileMode {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// archive writes the archive of a platform: a zip file for Windows, else tar.gz.
func (r *release) archive(p platform, program string, docs []file) error {
	files := append([]file{{name: p.program(), path: program, executable: true}}, docs...)
	return r.create(archiveName(r.version, p), func(w io.Writer) error {
		if p.os == "windows" {
			return writeZip(w, r.time, files)
		}
		return writeTar(w, r.time, files)
	})
}

func archiveName(version string, p platform) string {
	extension := "tar.gz"
	if p.os == "windows" {
		extension = "zip"
	}
	return fmt.Sprintf("metarouter_%s_%s_%s.%s", version, p.os, p.arch, extension)
}

// create writes a file of the release. It leaves no file if write fails.
func (r *release) create(name string, write func(io.Writer) error) (err error) {
	path := filepath.Join(r.out, name)
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			err = fmt.Errorf("%s: %w", name, errors.Join(err, os.Remove(path)))
		}
	}()
	return write(to)
}

// writeTar writes a tar archive in gzip's format.
func writeTar(to io.Writer, modified time.Time, files []file) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: f.name, Mode: int64(f.mode()), Size: int64(len(data)), ModTime: modified, Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// writeZip writes a zip archive.
func writeZip(to io.Writer, modified time.Time, files []file) error {
	z := zip.NewWriter(to)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(f.mode())
		w, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}
