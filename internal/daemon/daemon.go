// Package daemon lets commands ask the routers that run with the same
// configuration, over a local socket that only their user can open.
package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
)

// A Server is a server's state as JSON.
type Server struct {
	Name            string `json:"name"`
	State           string `json:"state"`
	Transport       string `json:"transport"`
	Era             string `json:"era"`
	ProtocolVersion string `json:"protocol_version"`
	Tools           int    `json:"tools"`
	PID             int    `json:"pid"`
	Restarts        int    `json:"restarts"`
	LastError       string `json:"last_error"`
}

// Report returns the servers' states as JSON has them.
func Report(infos []adapter.ServerInfo) []Server {
	all := make([]Server, len(infos))
	for i, s := range infos {
		all[i] = Server{s.Name, string(s.State), s.Transport, s.Era, s.ProtocolVersion, s.Tools, s.PID, s.Restarts, s.LastError}
	}
	return all
}

// folder returns where the sockets of routers are. A data folder whose path is
// too long for a socket's address is stood in for by one of the user's.
func folder(dataDir string) string {
	dataDir = resolved(dataDir)
	dir := filepath.Join(dataDir, "run")
	if len(dir) > 70 {
		sum := sha256.Sum256([]byte(dataDir))
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("metarouter-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
	}
	return dir
}

// prefix returns how the names of sockets of routers begin that run with these
// configuration files.
func prefix(files []string) string {
	var paths []string
	for _, file := range files {
		paths = append(paths, resolved(file))
	}
	sum := sha256.Sum256([]byte(strings.Join(paths, "\x00")))
	return hex.EncodeToString(sum[:6]) + "."
}

// resolved returns the path by which a file is known however it was named.
func resolved(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// Serve answers questions about the router until ctx ends. Without a data folder
// it has no place for a socket, and only waits.
func Serve(ctx context.Context, dataDir string, files []string, r *adapter.Router) error {
	if dataDir == "" {
		<-ctx.Done()
		return nil
	}
	dir := folder(dataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the socket: %w", err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the folder for the socket, %s, is open to others; remove it", dir)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s%d", prefix(files), os.Getpid()))
	os.Remove(path) // of an earlier process with our id
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	os.Chmod(path, 0o600) // the folder is closed to others already
	s := &http.Server{Handler: handler(r), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(bounded) != nil {
			s.Close()
		}
	})
	err = s.Serve(l)
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func handler(r *adapter.Router) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(Report(r.Servers()))
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, q *http.Request) {
		name := q.FormValue("server")
		if err := r.Restart(q.Context(), name); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		for _, s := range Report(r.Servers()) {
			if s.Name == name {
				json.NewEncoder(w).Encode(s)
			}
		}
	})
	return mux
}

// answerTimeout is how long a router may take to say what it knows.
const answerTimeout = 2 * time.Second

// Routers are those that run with the same configuration files.
type Routers struct{ sockets []string }

// Ask returns the routers that run with these files and keep their data in
// dataDir. Sockets that dead routers left are removed.
func Ask(dataDir string, files []string) Routers {
	if dataDir == "" {
		return Routers{}
	}
	found, _ := filepath.Glob(filepath.Join(folder(dataDir), prefix(files)+"*"))
	var alive []string
	for _, path := range found {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err != nil {
			os.Remove(path)
			continue
		}
		c.Close()
		alive = append(alive, path)
	}
	return Routers{alive}
}

// Servers returns the states of the first router's servers; ok is false if no
// router runs.
func (r Routers) Servers(ctx context.Context) (all []Server, ok bool) {
	for _, socket := range r.sockets {
		bounded, cancel := context.WithTimeout(ctx, answerTimeout)
		err := ask(bounded, socket, http.MethodGet, "/servers", &all)
		cancel()
		if err == nil {
			return all, true
		}
	}
	return nil, false
}

// Restart restarts the server in every router; ok is false if none runs. It
// returns the server's state in the last.
func (r Routers) Restart(ctx context.Context, name string) (s Server, ok bool, err error) {
	for _, socket := range r.sockets {
		ok = true
		err = errors.Join(err, ask(ctx, socket, http.MethodPost, "/restart?server="+url.QueryEscape(name), &s))
	}
	return s, ok, err
}

// ask makes one request and decodes the answer into v.
func ask(ctx context.Context, socket, method, path string, v any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	q, err := http.NewRequestWithContext(ctx, method, "http://router"+path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("ask the running router: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var text bytes.Buffer
		text.ReadFrom(answer.Body)
		return errors.New(strings.TrimSpace(text.String()))
	}
	return json.NewDecoder(answer.Body).Decode(v)
}
