//go:build !unix

package atomicfile

import "os"

// Own does nothing here: a new file's owner is that of the folder's rules.
func Own(*os.File, string) error { return nil }
