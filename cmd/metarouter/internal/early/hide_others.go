//go:build unix && !linux

package early

func hideProcess() {}
