package skill

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
)

// Write prints the text, or writes it to the file at which Claude Code reads the skill, if the editor
// writes: of this folder, or of the user.
func Write(e *edit.Editor, text string, user bool) error {
	path, err := file(user)
	if err != nil {
		return err
	}
	f, err := clients.Read(path)
	if err != nil {
		return err
	}
	same := f.Exists && bytes.Equal(f.Data, []byte(text))
	switch {
	case !e.Write:
		if _, err := fmt.Fprint(e.Console.Out, text); err != nil {
			return err
		}
		if same {
			e.Console.Note("%s has it already", path)
		} else if f.Exists {
			e.Console.Note("nothing was written; --write replaces %s, which differs, and keeps a copy of it", path)
		} else {
			e.Console.Note("nothing was written; --write puts it into %s", path)
		}
		return nil
	case same:
		e.Console.Note("%s has it already; nothing to do", path)
		return nil
	}
	return e.Replace(f, text)
}

// file returns the path at which Claude Code reads the skill.
func file(user bool) (string, error) {
	folder := ".claude"
	if user {
		folder = os.Getenv("CLAUDE_CONFIG_DIR")
		if folder == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			folder = filepath.Join(home, ".claude")
		}
	}
	return filepath.Join(folder, "skills", "metarouter", "SKILL.md"), nil
}
