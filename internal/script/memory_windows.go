package script

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserve reserves addresses without memory.
func reserve(size int) ([]byte, error) {
	address, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size), nil // vet can't know that the address is not Go's
}

// commit makes reserved bytes usable.
func commit(b []byte, from, to int) error {
	_, err := windows.VirtualAlloc(uintptr(unsafe.Pointer(&b[from])), uintptr(to-from), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

func release(b []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(&b[0])), 0, windows.MEM_RELEASE)
}
