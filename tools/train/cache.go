package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// cached returns the samples of all sources that the file of -samples has, or makes and writes them.
func (t *trainer) cached(ctx context.Context) (all []sample, err error) {
	if t.samples == "" {
		return t.sources(ctx)
	}
	f, err := os.Open(t.samples)
	if errors.Is(err, fs.ErrNotExist) {
		if all, err = t.sources(ctx); err != nil {
			return nil, err
		}
		if f, err = os.Create(t.samples); err != nil {
			return nil, fmt.Errorf("-samples: %w", err)
		}
		w := bufio.NewWriter(f)
		return all, errors.Join(gob.NewEncoder(w).Encode(all), w.Flush(), f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("-samples: %w", err)
	}
	defer f.Close()
	if err := gob.NewDecoder(bufio.NewReader(f)).Decode(&all); err != nil {
		return nil, fmt.Errorf("-samples %s: %w", t.samples, err)
	}
	return all, nil
}
