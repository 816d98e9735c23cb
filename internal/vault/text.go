package vault

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A Text is one text in an encrypted file. Several processes read and change parts of it. Its
// methods may be called from any goroutine.
type Text struct{ vault *Vault }

// textName is the only name in the file, which tells nothing of the text.
const textName = "all"

// Logins returns the text in the file logins.enc of the folder, which need not exist. It reads
// nothing.
func Logins(folder string) *Text { return &Text{newVault(folder, ofLogins)} }

// Get returns the text; "" before the first [Text.Edit].
func (t *Text) Get(ctx context.Context) (string, error) {
	f, err := t.vault.read()
	if err != nil || f.header.Key == "" {
		return "", err
	}
	values, err := t.vault.open(ctx, f)
	if err != nil {
		return "", err
	}
	return values[textName], nil
}

// Edit replaces the text by the result of change, while no other process does the same. If change
// returns an error, the text stays. A file that can't be read is an error, and stays as it is.
func (t *Text) Edit(ctx context.Context, change func(old string) (string, error)) error {
	_, err := t.vault.edit(ctx, func(values map[string]string) error {
		text, err := change(values[textName])
		values[textName] = text
		return err
	})
	return err
}

// KeyFile is [Vault.KeyFile].
func (t *Text) KeyFile() string { return t.vault.KeyFile() }

// A Stamp changes when the file does. The zero value belongs to no file.
type Stamp struct{ info fs.FileInfo }

// Same reports whether the file is as it was at the other stamp.
func (s Stamp) Same(other Stamp) bool {
	if s.info == nil || other.info == nil {
		return s == other
	}
	return s.info.ModTime().Equal(other.info.ModTime()) && s.info.Size() == other.info.Size() && os.SameFile(s.info, other.info)
}

// Stamp returns the stamp of the file. It does not read the file.
func (t *Text) Stamp() (Stamp, error) {
	info, err := os.Stat(filepath.Join(t.vault.folder, t.vault.of.file()))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return Stamp{info}, err
}
