// Package journal keeps on disk what scripts have done, so that a script goes on after its router has
// ended: the script runs again, gets the answers of the run before, and no call is sent twice that may not be.
//
// A file has encrypted records: each is four bytes with its length, a nonce, and a record in JSON sealed with AES-GCM,
// whose additional data is its number. The last record may be cut off. Answers wait for the next record, so that a call
// costs one write.
package journal

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/filelock"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/script"
)

const (
	// Lifetime is how long the file of a script stays after its last record.
	Lifetime = 10 * time.Minute

	maxShare  = 64 << 20               // bytes of the files of one principal
	maxFolder = 512 << 20              // bytes of all files
	delay     = 100 * time.Millisecond // after an answer until it is written, unless a call is sent before
	extension = ".script"
)

var (
	// ErrUnknown is that nothing is known of a script, or no more.
	ErrUnknown = errors.New("nothing is known of this script: it ended more than 10 minutes ago, its profile was edited, a stored script was edited, or it has left no record")

	errRuns = errors.New("it still runs in another process; send the request again later")
	errFull = fmt.Errorf("the records of the principal's scripts have more than %d MiB", maxShare>>20)
)

// A Store is a folder with the files of scripts. Its methods may be called by many goroutines at once.
type Store struct {
	folder string
	key    []byte

	mu   sync.Mutex
	used map[string]int // bytes of the files of each principal, by the first half of their names; guarded by mu
}

// Open returns the store of a folder, which is made if need be, with a key. It removes files that are too old.
func Open(folder string) (*Store, error) {
	key, err := keyIn(filepath.Join(folder, "key"))
	if err != nil {
		return nil, err
	}
	s := &Store{folder: folder, key: key}
	_, err = s.Sweep()
	return s, err
}

// Secret returns the key of the folder, 32 bytes. Other processes that use the folder have the same one.
func (s *Store) Secret() []byte { return s.key }

// Sweep removes files that are too old, and returns the bytes of the others.
func (s *Store) Sweep() (all int, err error) {
	entries, err := os.ReadDir(s.folder)
	used := make(map[string]int)
	for _, entry := range entries {
		principal, _, ours := strings.Cut(entry.Name(), "-")
		info, err := entry.Info()
		switch {
		case err != nil || !ours:
		case time.Since(info.ModTime()) > Lifetime:
			os.Remove(filepath.Join(s.folder, entry.Name()))
		default:
			used[principal] += int(info.Size())
			all += int(info.Size())
		}
	}
	s.mu.Lock()
	s.used = used
	s.mu.Unlock()
	return all, err
}

// take counts bytes that a principal is about to use, and fails if they are too many.
func (s *Store) take(principal string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[principal]+n > maxShare {
		return errFull
	}
	s.used[principal] += n
	return nil
}

// A record is a step of a script, with the answers before it.
type record struct {
	Begun   *time.Time      `json:"begun,omitempty"`
	Rules   string          `json:"rules,omitempty"` // with Begun
	Answers []script.Answer `json:"answers,omitempty"`
	Sent    int             `json:"sent,omitempty"`   // the number of a call that is about to be sent
	Result  json.RawMessage `json:"result,omitempty"` // of the script
}

// sent is a call that is noted.
type sent struct{ before, repeatable bool } // by the run before; may take effect twice

// A Journal is the file of one script. It implements [script.Journal]. Its methods may be called by many
// goroutines at once.
type Journal struct {
	store           *Store
	principal, path string
	aead            cipher.AEAD

	mu      sync.Mutex // guards the fields below
	file    *os.File   // nil once it is closed
	records uint64
	size    int
	lost    bool            // a record could not be written: the file is empty, and the script does not go on in another process
	pending []script.Answer // are not written yet
	timer   *time.Timer     // writes them; nil without any
	begun   time.Time
	rules   string
	sent    map[int]sent    // calls that are noted and have no answer
	answers []script.Answer // of the run before, those that were not given yet
	result  json.RawMessage
}

// Begin returns the journal of a principal's new script, which runs under rules. It must be closed.
func (s *Store) Begin(principal string, id uint64, rules string) (*Journal, error) {
	j, err := s.open(principal, id, os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	j.begun, j.rules = time.Now().UTC(), rules
	if err := j.write(record{Begun: &j.begun, Rules: rules}); err != nil || j.lost {
		j.Close(false)
		return nil, cmp.Or(err, errFull)
	}
	return j, nil
}

// Resume returns the journal of a script that ran before. It must be closed. It fails with [ErrUnknown] if
// there is no journal, or the script ran under other rules.
func (s *Store) Resume(principal string, id uint64, rules string) (*Journal, error) {
	j, err := s.open(principal, id, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	} else if err != nil {
		return nil, err
	}
	if err = j.read(); err == nil && (j.begun.IsZero() || j.rules != rules) {
		err = ErrUnknown
	}
	if err != nil {
		j.Close(true)
		return nil, err
	}
	return j, nil
}

// open opens and locks the file of a script, which may be new if there is a flag.
func (s *Store) open(principal string, id uint64, flag int) (*Journal, error) {
	if all, err := s.Sweep(); err != nil {
		return nil, err
	} else if flag != 0 && all > maxFolder {
		return nil, fmt.Errorf("the records of scripts have %d MiB; no more are kept", all>>20)
	}
	principal = hex.EncodeToString(s.secret("principal\x00" + principal)[:8])
	name := fmt.Sprintf("%s-%016x%s", principal, id, extension)
	block, err := aes.NewCipher(s.secret("script\x00" + name))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	f, err := safefile.OpenOwn(filepath.Join(s.folder, name), os.O_RDWR|flag)
	if err != nil {
		return nil, err
	}
	if locked, err := filelock.Try(f); err != nil || !locked {
		f.Close()
		return nil, cmp.Or(err, errRuns)
	}
	return &Journal{store: s, principal: principal, path: f.Name(), aead: aead, file: f, sent: make(map[int]sent)}, nil
}

// secret returns a key for a purpose.
func (s *Store) secret(purpose string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// read reads the records, up to the one that is cut off.
func (j *Journal) read() error {
	data, err := io.ReadAll(io.LimitReader(j.file, maxShare+1<<20))
	if err != nil {
		return err
	}
	for rest := data; len(rest) >= 4; {
		size := int(binary.BigEndian.Uint32(rest))
		if size > len(rest)-4 {
			break
		}
		plain, err := j.aead.Open(nil, nil, rest[4:4+size], binary.BigEndian.AppendUint64(nil, j.records))
		var r record
		if err != nil || json.Unmarshal(plain, &r) != nil {
			return ErrUnknown // a stranger has written it
		}
		j.records++
		j.size += 4 + size
		rest = rest[4+size:]
		if r.Begun != nil {
			j.begun, j.rules = *r.Begun, r.Rules
		}
		for _, a := range r.Answers {
			delete(j.sent, a.Number)
		}
		if j.answers = append(j.answers, r.Answers...); r.Sent > 0 {
			j.sent[r.Sent] = sent{before: true}
		}
		j.result = r.Result
	}
	return j.file.Truncate(int64(j.size))
}

// write writes a record with the answers before it. If that fails, it empties the file: no script goes on that has
// done more than the file says. An error is that this fails too.
func (j *Journal) write(r record) error {
	if j.file == nil {
		return os.ErrClosed
	}
	r.Answers, j.pending = j.pending, nil
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if j.lost {
		return nil
	}
	plain, err := json.Marshal(r)
	if err == nil {
		sealed := j.aead.Seal(make([]byte, 4, len(plain)+4+j.aead.Overhead()), nil, plain, binary.BigEndian.AppendUint64(nil, j.records))
		binary.BigEndian.PutUint32(sealed, uint32(len(sealed)-4))
		if err = j.store.take(j.principal, len(sealed)); err == nil {
			_, err = j.file.WriteAt(sealed, int64(j.size))
			j.records++
			j.size += len(sealed)
		}
	}
	if err != nil {
		j.lost, err = true, j.empty()
	}
	return err
}

// empty removes all records.
func (j *Journal) empty() error {
	_ = j.store.take(j.principal, -j.size)
	j.records, j.size = 0, 0
	return j.file.Truncate(0)
}

// Begun implements [script.Journal].
func (j *Journal) Begun() time.Time { return j.begun }

// Next implements [script.Journal].
func (j *Journal) Next() (script.Answer, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.answers) == 0 {
		return script.Answer{}, false
	}
	a := j.answers[0]
	j.answers = j.answers[1:]
	return a, true
}

// Answered implements [script.Journal]. The answer is written with the next call that is sent, by Flush, or after a moment.
func (j *Journal) Answered(a script.Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.sent, a.Number)
	if j.pending = append(j.pending, a); j.timer == nil {
		j.timer = time.AfterFunc(delay, func() { j.Flush() })
	}
}

// Send notes that a call is about to be sent, which may take effect twice if it is repeatable, and fails if it can't be
// noted. before reports whether the run before may have sent it.
func (j *Journal) Send(number int, repeatable bool) (before bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was, noted := j.sent[number]
	j.sent[number] = sent{was.before, repeatable}
	if !noted {
		err = j.write(record{Sent: number})
	}
	return was.before, err
}

// WasSent reports whether the run before may have sent a call.
func (j *Journal) WasSent(number int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent[number].before
}

// Flush writes the answers. It reports whether the file has all that the script did, and no call is under way that may
// take effect once: then the script can go on with the file. j may be nil.
func (j *Journal) Flush() bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.pending) > 0 {
		_ = j.write(record{}) // if that fails, the file is empty and no script goes on with it
	}
	for _, s := range j.sent {
		if !s.repeatable {
			return false
		}
	}
	return !j.lost
}

// Result returns the result of a script that has ended; nil while it has not.
func (j *Journal) Result() json.RawMessage { return j.result }

// End notes the result of the script, and forgets the answers.
func (j *Journal) End(result json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return os.ErrClosed
	}
	if err := j.empty(); err != nil {
		return err
	}
	j.lost, j.pending = false, nil
	return j.write(record{Begun: &j.begun, Rules: j.rules, Result: result})
}

// Close closes the file, and removes it unless it is to be kept.
func (j *Journal) Close(keep bool) error {
	j.Flush()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	if !keep {
		_ = j.empty() // its bytes are free for the principal's other scripts
	}
	err := j.file.Close()
	j.file = nil
	if !keep {
		err = errors.Join(err, os.Remove(j.path))
	}
	return err
}

// keyIn returns the key of 32 bytes in a file, which is made if need be.
func keyIn(path string) ([]byte, error) {
	key, err := safefile.ReadOwn(path, sha256.Size)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, sha256.Size)
		rand.Read(key)
		if err = atomicfile.Create(path, key); err == nil { // another process may have made it
			key, err = safefile.ReadOwn(path, sha256.Size)
		}
	}
	if err == nil && len(key) != sha256.Size {
		err = fmt.Errorf("%s has %d bytes, want %d; remove it", path, len(key), sha256.Size)
	}
	return key, err
}
