package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// Sockets are the sockets of routers with the same configuration files: a folder and a prefix of names. The zero value has no sockets.
type Sockets struct {
	dir    string
	prefix string // of the sockets' names
}

// SocketsOf returns the sockets of routers that have these files and keep their data in
// dataDir; the zero Sockets without a dataDir.
func SocketsOf(dataDir string, files []string) Sockets {
	if dataDir == "" {
		return Sockets{}
	}
	dataDir = Resolved(dataDir)
	dir := filepath.Join(dataDir, "run")
	if len(dir) > 70 { // too long for a socket's address
		sum := sha256.Sum256([]byte(dataDir))
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("metarouter-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
	}
	var paths []string
	for _, file := range files {
		paths = append(paths, Resolved(file))
	}
	sum := sha256.Sum256([]byte(strings.Join(paths, "\x00")))
	return Sockets{dir, hex.EncodeToString(sum[:6]) + "."}
}

// open makes sure that the folder is there and closed to others.
func (s Sockets) open() error {
	if s.dir == "" {
		return errors.New("there is no data folder to keep a socket in")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the socket: %w", err)
	}
	if !s.isOurs() {
		return fmt.Errorf("the folder for the socket, %s, is open to others or belongs to another; remove it", s.dir)
	}
	return nil
}

// isOurs reports whether no other user can have put anything into the folder.
func (s Sockets) isOurs() bool {
	folder, err := os.Lstat(s.dir)
	return err == nil && folder.IsDir() && isPrivate(folder)
}

// shared begins the names of the sockets of routers that clients may share, after
// the prefix.
const shared = "shared-"

// lockTime is how long a process may look for a router to share: others may be waiting for a router to start.
const lockTime = 30 * time.Second

// lock keeps other processes from looking for a router to share and starting one, until unlock is called.
func (s Sockets) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	return safefile.Lock(ctx, s.lockFile(), lockTime, "looks for a router to share")
}

func (s Sockets) lockFile() string { return filepath.Join(s.dir, "lock."+s.prefix) }

// newSocket returns the path of a new socket of a kind.
func (s Sockets) newSocket(kind string) string {
	s.running("") // which removes the sockets of dead routers
	// A router that ends removes its socket, so no two may have the same name.
	return filepath.Join(s.dir, s.prefix+kind+rand.Text()[:12])
}

// listen listens at a new socket.
func (s Sockets) listen(kind string) (net.Listener, error) { return s.listenAt(s.newSocket(kind)) }

func (s Sockets) listenAt(path string) (net.Listener, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for other processes: %w", err)
	}
	os.Chmod(path, 0o600) // the folder is closed to others already
	return l, nil
}

// setAside renames the socket of a router that is not shared any more, such as one that hangs. Commands still find it, and
// when it has ended, its socket is removed.
func (s Sockets) setAside(socket, kind string) {
	id := strings.TrimPrefix(filepath.Base(socket), s.prefix+shared)
	_ = os.Rename(socket, filepath.Join(s.dir, s.prefix+kind+id)) // else the next client asks it too
}

// running returns the sockets of this kind of running routers, the newest first: so an
// old router that hangs delays no process if there is a newer one. It removes old sockets of dead routers; a process
// may be about to listen on a new one.
func (s Sockets) running(kind string) (alive []string) {
	if s.dir == "" || !s.isOurs() {
		return nil
	}
	found, _ := os.ReadDir(s.dir)
	slices.SortStableFunc(found, func(a, b fs.DirEntry) int { return made(b).Compare(made(a)) })
	for _, f := range found {
		if !strings.HasPrefix(f.Name(), s.prefix+kind) {
			continue
		}
		path := filepath.Join(s.dir, f.Name())
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			alive = append(alive, path)
		} else if errors.Is(err, refused) && time.Since(made(f)) > staleAfter {
			os.Remove(path)
		}
	}
	return alive
}

func socketsAt(path string) Sockets {
	prefix, _, _ := strings.Cut(filepath.Base(path), ".")
	return Sockets{filepath.Dir(path), prefix + "."}
}

// made returns when a socket was made: now if it is no longer there.
func made(socket fs.DirEntry) time.Time {
	info, err := socket.Info()
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}

// staleAfter is the age from which on a socket without a listener is taken for one that
// a dead router has left.
const staleAfter = 2 * time.Second

// Serve answers the requests of other processes with the same files, until ctx ends.
func Serve(ctx context.Context, s Sockets, h http.Handler) error {
	defer s.running("") // which removes the sockets of dead routers
	l, err := s.listen("")
	if err != nil {
		return err
	}
	return serve(ctx, l, h)
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 15 * time.Second}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(bounded) != nil {
			s.Close()
		}
	})
	err := s.Serve(pipe.Listen(ownListener{l, os.Geteuid()}))
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
