package pipe

import (
	"os"
	"syscall"
)

// immediate returns nil: reads and writes of pipes always wait on Windows.
func immediate(*os.File) syscall.RawConn { return nil }

func hasReader(syscall.Conn) bool { return false }

type attempt struct{}

func attempts(syscall.RawConn) (read, write *attempt) { return nil, nil }
func tryRead(*attempt, []byte) (int, error)           { return 0, errNotTried }
func tryWrite(*attempt, []byte) (int, error)          { return 0, errNotTried }
