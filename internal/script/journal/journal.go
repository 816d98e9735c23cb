// Package journal keeps on disk what scripts have done, so that a script goes on after its router has
// ended: the script runs again, gets the answers of the run before, and no call is sent twice that may not be.
//
// A file has encrypted records: each is four bytes with its length, a nonce, and a record in JSON sealed with AES-GCM,
// whose additional data is its number. The last record may be cut off.
package journal

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
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

	maxFile   = 64 << 20  // bytes of a script's records
	maxFolder = 512 << 20 // bytes of all files
	extension = ".script"
)

var (
	// ErrUnknown is that nothing is known of a script, or no more.
	ErrUnknown = errors.New("nothing is known of this script: it ended more than 10 minutes ago, its profile was edited, or it has left no record")

	errRuns = errors.New("it still runs in another process; send the request again later")
	errFull = fmt.Errorf("the script's results have more than %d MiB", maxFile>>20)
)

// A Store is a folder with the files of scripts. Its methods may be called by many goroutines at once.
type Store struct {
	folder string
	key    []byte
}

// Open returns the store of a folder, which is made if need be, with a key. It removes files that are too old.
func Open(folder string) (*Store, error) {
	key, err := keyIn(filepath.Join(folder, "key"))
	if err != nil {
		return nil, err
	}
	s := &Store{folder, key}
	_, err = s.sweep()
	return s, err
}

// Secret returns the key of the folder, 32 bytes. Other processes that use the folder have the same one.
func (s *Store) Secret() []byte { return s.key }

// sweep removes files that are too old, and returns the size of the others.
func (s *Store) sweep() (size int64, err error) {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil || !strings.HasSuffix(entry.Name(), extension):
		case time.Since(info.ModTime()) > Lifetime:
			os.Remove(filepath.Join(s.folder, entry.Name()))
		default:
			size += info.Size()
		}
	}
	return size, nil
}

// A record is one step of a script. Only one of its members is set.
type record struct {
	Begun  *time.Time      `json:"begun,omitempty"`
	Rules  string          `json:"rules,omitempty"` // with Begun
	Sent   int             `json:"sent,omitempty"`  // the number of a call that is about to be sent
	Answer *script.Answer  `json:"answer,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // of the script
}

// A Journal is the file of one script. It implements [script.Journal]. Its methods may be called by many
// goroutines at once.
type Journal struct {
	path string
	aead cipher.AEAD

	mu      sync.Mutex // guards the fields below
	file    *os.File   // nil once it is closed
	records uint64
	size    int
	lost    bool // a record could not be written: the file is empty, and the script does not go on in another process
	begun   time.Time
	rules   string
	sent    map[int]bool    // calls that are noted; true if the run before has noted them
	answers []script.Answer // of the run before, those that were not given yet
	result  json.RawMessage
}

// Begin returns the journal of a new script, which runs under rules. It must be closed.
func (s *Store) Begin(id uint64, rules string) (*Journal, error) {
	size, err := s.sweep()
	if err != nil {
		return nil, err
	}
	if size > maxFolder {
		return nil, fmt.Errorf("the records of scripts have %d MiB; no more are kept", size>>20)
	}
	j := s.journal(id)
	if err := j.open(os.O_CREATE | os.O_EXCL); err != nil {
		return nil, err
	}
	j.begun, j.rules = time.Now().UTC(), rules
	if err := j.append(record{Begun: &j.begun, Rules: rules}); err != nil {
		j.Close(false)
		return nil, err
	}
	return j, nil
}

// Resume returns the journal of a script that ran before. It must be closed. It fails with [ErrUnknown] if
// there is no journal, or the script ran under other rules.
func (s *Store) Resume(id uint64, rules string) (*Journal, error) {
	if _, err := s.sweep(); err != nil {
		return nil, err
	}
	j := s.journal(id)
	if err := j.open(0); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	} else if err != nil {
		return nil, err
	}
	err := j.read()
	if err == nil && (j.begun.IsZero() || j.rules != rules) {
		err = ErrUnknown
	}
	if err != nil {
		j.Close(true)
		return nil, err
	}
	return j, nil
}

func (s *Store) journal(id uint64) *Journal {
	name := fmt.Sprintf("%016x", id)
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte("script\x00" + name))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // the key has the wrong length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &Journal{path: filepath.Join(s.folder, name+extension), aead: aead, sent: make(map[int]bool)}
}

// open opens and locks the file.
func (j *Journal) open(flag int) error {
	f, err := os.OpenFile(j.path, os.O_RDWR|flag, 0o600) // the folder is ours alone
	if err != nil {
		return err
	}
	locked, err := filelock.Try(f)
	if err != nil || !locked {
		f.Close()
		return cmp.Or(err, errRuns)
	}
	j.file = f
	return nil
}

// read reads the records, up to the one that is cut off.
func (j *Journal) read() error {
	data, err := io.ReadAll(io.LimitReader(j.file, maxFile+1<<20))
	if err != nil {
		return err
	}
	for rest := data; len(rest) >= 4; {
		size := int(binary.BigEndian.Uint32(rest))
		if size > len(rest)-4 {
			break
		}
		plain, err := j.aead.Open(nil, nil, rest[4:4+size], j.number())
		var r record
		if err != nil || json.Unmarshal(plain, &r) != nil {
			return ErrUnknown // a stranger has written it
		}
		j.records++
		j.size += 4 + size
		switch rest = rest[4+size:]; {
		case r.Begun != nil:
			j.begun, j.rules = *r.Begun, r.Rules
		case r.Answer != nil:
			j.answers = append(j.answers, *r.Answer)
		case r.Result != nil:
			j.result = r.Result
		default:
			j.sent[r.Sent] = true
		}
	}
	return j.file.Truncate(int64(j.size))
}

// number returns the additional data of the next record.
func (j *Journal) number() []byte { return binary.BigEndian.AppendUint64(nil, j.records) }

// append appends a record. If that fails, it empties the file: no script goes on that has done more than
// the file says. An error is that this fails too.
func (j *Journal) append(r record) error {
	if j.file == nil {
		return os.ErrClosed
	}
	if j.lost {
		return nil
	}
	plain, err := json.Marshal(r)
	if err == nil && j.size+len(plain) > maxFile {
		err = errFull
	}
	if err == nil {
		sealed := j.aead.Seal(make([]byte, 4), nil, plain, j.number())
		binary.BigEndian.PutUint32(sealed, uint32(len(sealed)-4))
		_, err = j.file.WriteAt(sealed, int64(j.size))
		j.records++
		j.size += len(sealed)
	}
	if err != nil {
		j.lost, err = true, j.file.Truncate(0)
	}
	return err
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

// Answered implements [script.Journal].
func (j *Journal) Answered(a script.Answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.append(record{Answer: &a}) // if that fails, the file is empty and no script goes on with it
}

// Send notes that a call is about to be sent, and fails if it can't be noted.
func (j *Journal) Send(number int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, noted := j.sent[number]; noted {
		return nil
	}
	j.sent[number] = false
	return j.append(record{Sent: number})
}

// WasSent reports whether the run before may have sent a call.
func (j *Journal) WasSent(number int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent[number]
}

// Result returns the result of a script that has ended; nil while it has not.
func (j *Journal) Result() json.RawMessage { return j.result }

// End notes the result of the script, and forgets the answers. The file is removed after the Lifetime.
func (j *Journal) End(result json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return os.ErrClosed
	}
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	time.AfterFunc(Lifetime, func() { os.Remove(j.path) })
	j.records, j.size, j.lost = 0, 0, false
	if err := j.append(record{Begun: &j.begun, Rules: j.rules}); err != nil {
		return err
	}
	return j.append(record{Result: result})
}

// Close closes the file, and removes it unless it is to be kept.
func (j *Journal) Close(keep bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
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
	for range 2 {
		switch key, err := safefile.Read(path, sha256.Size); {
		case err == nil && len(key) == sha256.Size:
			return key, nil
		case err == nil:
			return nil, fmt.Errorf("%s has %d bytes, want %d; remove it", path, len(key), sha256.Size)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		key := make([]byte, sha256.Size)
		rand.Read(key)
		if err := atomicfile.Create(path, key); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s can't be read", path)
}
