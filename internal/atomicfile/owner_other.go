//go:build !unix

package atomicfile

import "os"

// Own does nothing: on this system the folder decides who owns a new file.
func Own(*os.File, string) error { return nil }
