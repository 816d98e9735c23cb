package safefile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// LockTime is how long another process may usually hold a lock.
	LockTime = 2 * time.Minute
	// Between two attempts to take a lock, a process waits for shortPause at first, then a hundredth longer each time,
	// and longPause at most.
	shortPause = 2 * time.Millisecond
	longPause  = 50 * time.Millisecond
)

// Edit has edit change the JSON object in the file at path, which read returns, while no other process does the same. It makes the file's
// folder. The file has at most so many bytes. doing is as in [Lock].
func Edit[T any](path string, most int64, doing string, read func() (map[string]T, error), edit func(map[string]T)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := Lock(context.Background(), path+".lock", LockTime, doing)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := read()
	if err != nil {
		return err
	}
	edit(all)
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s would be larger than %s", path, Size(most))
	}
	if err != nil {
		return err
	}
	return Write(path, data, true)
}

// Lock takes the lock of the file at path until unlock is called or the process ends. It waits as long as within while
// another process has it. doing says why that process has the lock, for the error: "changes the secrets".
func Lock(ctx context.Context, path string, within time.Duration, doing string) (unlock func(), err error) {
	f, err := OpenOwn(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for pause := shortPause; ; pause = min(pause+pause/100, longPause) {
		locked, err := TryLock(f)
		switch {
		case locked:
			return func() { f.Close() }, nil
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another process %s and does not end (lock %s): %w", doing, path, ctx.Err())
		}
	}
}
