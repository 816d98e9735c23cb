//go:build !linux

package secret

// HideProcess does nothing here.
func HideProcess() {}
