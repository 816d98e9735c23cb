package external

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// A Registry is an npm registry that has every package whose name begins with "fake-". Each
// package is a server whose tool "who" returns its process id, its parent's and its arguments
// as JSON. The server ends only by a signal.
type Registry struct {
	URL string

	mu    sync.Mutex // guards asked
	asked map[string]int
}

// NewRegistry returns a registry that serves until the test ends.
func NewRegistry(t testing.TB) *Registry {
	r := &Registry{asked: make(map[string]int)}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// Asked returns how often a client asked for the package.
func (r *Registry) Asked(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[name]
}

const registryVersion = "1.0.0"

func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name, isFile := strings.TrimPrefix(q.URL.Path, "/"), strings.HasSuffix(q.URL.Path, ".tgz")
	if isFile {
		name = strings.TrimSuffix(path.Base(name), ".tgz")
	}
	manifest := fmt.Sprintf(`"name":%q,"version":%q,"bin":{%[1]q:"server.js"}`, name, registryVersion)
	file := packed(map[string]string{"package.json": "{" + manifest + "}", "server.js": registryServer})
	if isFile {
		w.Write(file)
		return
	}
	if !strings.HasPrefix(name, "fake-") {
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
		return
	}
	r.mu.Lock()
	r.asked[name]++
	r.mu.Unlock()
	sum := sha512.Sum512(file)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"name":%q,"dist-tags":{"latest":%q},"versions":{%[2]q:{%[3]s,"dist":{"tarball":"http://%[4]s/files/%[1]s.tgz","integrity":"sha512-%[5]s"}}}}`,
		name, registryVersion, manifest, q.Host, base64.StdEncoding.EncodeToString(sum[:]))
}

// packed returns the files in the format of npm pack.
func packed(files map[string]string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, name := range []string{"package.json", "server.js"} {
		t.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		t.Write([]byte(files[name]))
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

const registryServer = `#!/usr/bin/env node
process.on('SIGTERM', () => { console.error('ended by SIGTERM'); process.exit(0) })
setInterval(() => {}, 1000)
const who = { name: 'who', description: 'Returns who it is.', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }
const answers = {
  initialize: p => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'fake', version: '1.0.0' } }),
  'tools/list': () => ({ tools: [who] }),
  'tools/call': () => ({ content: [{ type: 'text', text: JSON.stringify({
    pid: process.pid, parent: process.ppid, arguments: process.argv.slice(2), event: process.env.npm_lifecycle_event, offline: process.env.npm_config_prefer_offline,
  }) }] }),
}
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  const answer = answers[method]
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(answer ? { result: answer(params) } : { error: { code: -32601, message: 'no such method' } }) }))
})
`
