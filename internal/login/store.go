package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxLogins  = 1000     // in a store
	maxClients = 1000     // in a store
	maxEntry   = 64 << 10 // bytes of a login or a client

	// valueName is the only name in the file, which tells nothing of the content.
	valueName = "all"
)

// A Store keeps logins, registered clients and pins in an encrypted file that all routers of the user
// share. Its methods may be called from any goroutine.
//
// A login is found by the URL of its server. The name of its issuer is in it: a server has one login
// at a time.
type Store struct {
	folder string              // "" keeps the content in memory only
	vault  *vault.Vault        // of the folder
	wrote  signal.Change       // of the content, by this store
	reads  *semaphore.Weighted // of 1, so that one read serves all who wait: the sessions of all users look at each change

	mu   sync.Mutex  // guards the fields below
	kept *content    // as it was read last, not changed any more; nil before
	file fs.FileInfo // that kept was read from; nil if there was no file

	memory map[string]string   // as the vault, without a folder
	turn   *semaphore.Weighted // without a folder, the lock of all logins
}

// NewStore returns the store of the folder, next to the user's own configuration; with "", one that ends with the process.
// It reads nothing.
func NewStore(folder string) *Store {
	return &Store{folder: folder, vault: vault.Logins(folder), reads: semaphore.NewWeighted(1), memory: make(map[string]string), turn: semaphore.NewWeighted(1)}
}

// A content is everything in a store.
type content struct {
	Logins  map[string]storedLogin  `json:"accounts"` // by key
	Pins    map[string]string       `json:"pins"`     // issuers, by key of the server and the client of its settings
	Clients map[string]oauth.Client `json:"clients"`  // by key of the issuer and the origin of the server
}

// A storedLogin is the login at a server, with the state of its refreshes.
type storedLogin struct {
	Found  oauth.Found  `json:"found"`  // so that a refresh needs no discovery
	Client oauth.Client `json:"client"` // that the token was issued to
	Token  oauth.Token  `json:"token"`
	Who    string       `json:"who,omitempty"` // the name of the principal, for persons; "" is the local user

	ID         string             `json:"id"`                   // random, of the login; it stays when the token is refreshed
	Generation string             `json:"generation"`           // random, of the token
	Refreshing bool               `json:"refreshing,omitempty"` // a router asks for the next token, or ended while it did
	Ended      status.LoginReason `json:"ended,omitempty"`      // why the token can't be refreshed; "" if it can, or never could

	Server    string    `json:"server,omitempty"` // its name at the login
	URL       string    `json:"url,omitempty"`    // of the server, as in the key
	Principal string    `json:"principal,omitempty"`
	Used      time.Time `json:"used,omitzero"` // by the principal last, within usedTime
}

// owner is in the keys of all clients, which all principals share, and of the logins of the local user.
const owner = "owner"

// key returns the name of the login of s.Principal at the server in the content.
func key(s oauth.Server) string {
	if s.Principal != "" {
		return hash(bare(s.URL), "principal", s.Principal)
	}
	return hash(bare(s.URL), owner)
}

// bare returns the URL of a server without the parts that no server sees.
func bare(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	return u.String()
}

func hash(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}

// login returns the login with the key, nil if the store does not have it. It reads the file only if it has
// changed, or if fresh is true.
func (s *Store) login(ctx context.Context, key string, fresh bool) (*storedLogin, error) {
	c, err := s.read(ctx, fresh)
	if err == nil {
		if l, ok := c.Logins[key]; ok {
			return &l, nil
		}
	}
	return nil, err
}

func (s *Store) read(ctx context.Context, fresh bool) (*content, error) {
	if s.folder == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		return parse(s.memory[valueName])
	}
	if kept, _, err := s.unchanged(); err != nil || kept != nil && !fresh {
		return kept, err
	}
	if s.reads.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer s.reads.Release(1)
	kept, file, err := s.unchanged()
	if err != nil || kept != nil && !fresh {
		return kept, err
	}
	data, err := s.vault.Get(ctx, valueName)
	if err != nil && !errors.As(err, new(*vault.MissingError)) {
		return nil, err
	}
	c, err := parse(data)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.file = c, file
	return c, nil
}

// unchanged returns the content that was read last if its file is the same; else nil, and the file before it is read, so that a change
// between is seen.
func (s *Store) unchanged() (*content, fs.FileInfo, error) {
	file, err := s.vault.Stat()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || !isSame(s.file, file) {
		return nil, file, err
	}
	return s.kept, file, nil
}

// isSame reports whether two descriptions are of one unchanged file; nil is no file.
func isSame(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

func parse(data string) (*content, error) {
	c := &content{make(map[string]storedLogin), make(map[string]string), make(map[string]oauth.Client)}
	if data != "" && json.Unmarshal([]byte(data), c) != nil {
		return nil, errors.New("the stored logins are of another version of metarouter; use that version, or remove logins.enc and log in again")
	}
	return c, nil
}

// errUnchanged ends an edit that changes nothing.
var errUnchanged = errors.New("unchanged")

// edit changes the content, while no other process does the same. The content stays as it is if
// change returns an error; errUnchanged counts as success.
func (s *Store) edit(ctx context.Context, change func(*content) error) error {
	write := func(values map[string]string) error {
		c, err := parse(values[valueName])
		if err == nil {
			err = change(c)
		}
		if err != nil {
			return err
		}
		values[valueName] = string(wire.Marshal(c))
		return nil
	}
	var err error
	if s.folder != "" {
		_, err = s.vault.Edit(ctx, write)
	} else {
		s.mu.Lock()
		err = write(s.memory)
		s.mu.Unlock()
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		s.wrote.Notify()
	}
	return err
}

// replace edits the content so that the login with the key ends, while no router refreshes its token.
func (s *Store) replace(ctx context.Context, key string, change func(*content) error) error {
	old, err := s.login(ctx, key, true)
	if err != nil {
		return err
	}
	if old == nil {
		return s.edit(ctx, change)
	}
	unlock, err := s.lock(ctx, old.ID)
	if err != nil {
		return err
	}
	err = s.edit(ctx, change)
	unlock()
	if err == nil {
		s.dropLock(old.ID)
	}
	return err
}

// swap changes the login with the key if its token is still of the generation, and returns
// the login as it is then; nil if it was removed. change must not change maps and slices of
// the login.
func (s *Store) swap(ctx context.Context, key, generation string, change func(*storedLogin)) (now *storedLogin, err error) {
	err = s.edit(ctx, func(c *content) error {
		l, ok := c.Logins[key]
		if !ok {
			return errUnchanged
		}
		now = &l
		if l.Generation != generation {
			return errUnchanged
		}
		change(&l)
		c.Logins[key] = l
		return bounded(l)
	})
	return now, err
}

func bounded(value any) error {
	if len(wire.Marshal(value)) > maxEntry {
		return fmt.Errorf("the issuer's tokens are larger than %d KiB, which is too large to keep", maxEntry>>10)
	}
	return nil
}

// makeRoom removes a value if a new key would make the map larger than most.
func makeRoom[K comparable, V any](m map[K]V, key K, most int) {
	if _, ok := m[key]; ok {
		return
	}
	for other := range m {
		if len(m) < most {
			return
		}
		delete(m, other)
	}
}

// lock takes the lock of the login with the ID, which all routers of the user share, until unlock is
// called or the process ends. It waits while another one has it.
func (s *Store) lock(ctx context.Context, id string) (unlock func(), err error) {
	if s.folder != "" {
		return safefile.Lock(ctx, s.lockPath(id), safefile.LockTime, "refreshes the token of a login")
	}
	return func() { s.turn.Release(1) }, s.turn.Acquire(ctx, 1)
}

// dropLock removes the lock of a login that has ended. A router that still waits for the lock finds
// another login, or no login.
func (s *Store) dropLock(id string) {
	if s.folder != "" {
		_ = os.Remove(s.lockPath(id)) // an open file on Windows: it stays
	}
}

func (s *Store) lockPath(id string) string { return filepath.Join(s.folder, "login-"+hash(id)+".lock") }
