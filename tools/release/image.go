package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group of the image.
const imageUser = 65532

// image writes an image for containers FROM scratch, in the format that 'docker load' and
// 'podman load' read. Dockerfile builds the same.
func (r *release) image(p platform, program string) error {
	layer, err := r.layer(program)
	if err != nil {
		return err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.History = []v1.History{{Created: v1.Time{Time: r.time}, CreatedBy: "go -C tools run ./release"}}
	config.Config = v1.Config{
		Env:          []string{"HOME=/home/metarouter", "PATH=/usr/bin"},
		User:         "65532:65532",
		WorkingDir:   "/home/metarouter",
		ExposedPorts: map[string]struct{}{"8787/tcp": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/bin/metarouter", "health"}, StartPeriod: 10 * time.Second, Interval: 30 * time.Second, Timeout: 6 * time.Second,
		},
		Entrypoint: []string{"/usr/bin/metarouter"},
		Cmd:        []string{"serve", "--http", "0.0.0.0:8787", "--config", "/config/mcp.json"},
		Labels: map[string]string{
			"org.opencontainers.image.source":   "https://github.com/mcp-metarouter/metarouter",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("metarouter:" + imageTag(r.version))
	if err != nil {
		return err
	}
	return r.create("metarouter_"+r.version+"_"+p.os+"_"+p.arch+".image.tar", func(w io.Writer) error { return tarball.Write(tag, image, w) })
}

// imageTag returns the tag of a version; tags have no "+".
func imageTag(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("_")))
}

// layer returns the files of the image, as a tar archive: the program, the certificates
// of Mozilla's program, a user and the folders that it needs.
func (r *release) layer(program string) ([]byte, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	var failed error
	add := func(h tar.Header, data []byte) {
		h.Size, h.ModTime, h.Format = int64(len(data)), r.time, tar.FormatPAX
		failed = errors.Join(failed, t.WriteHeader(&h))
		_, err := t.Write(data)
		failed = errors.Join(failed, err)
	}
	folder := func(name string, mode int64, owner int) {
		add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}, nil)
	}
	text := func(name, data string) { add(tar.Header{Name: name, Mode: 0o644}, []byte(data)) }
	for _, name := range []string{"config/", "etc/", "etc/ssl/", "etc/ssl/certs/", "home/", "usr/", "usr/bin/"} {
		folder(name, 0o755, 0)
	}
	folder("home/metarouter/", 0o700, imageUser)
	folder("tmp/", 0o1777, 0)
	text("etc/passwd", "metarouter:x:65532:65532::/home/metarouter:/usr/bin/metarouter\n")
	text("etc/group", "metarouter:x:65532:\n")
	text("etc/ssl/certs/ca-certificates.crt", roots())
	add(tar.Header{Name: "usr/bin/metarouter", Mode: 0o755}, data)
	return b.Bytes(), errors.Join(failed, t.Close())
}

// roots returns the root certificates that need no further constraint, as PEM.
func roots() string {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return b.String()
}
