//go:build !linux

package vault

import "errors"

func useService(string, string) error { return errors.ErrUnsupported }
