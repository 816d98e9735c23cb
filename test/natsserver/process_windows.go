package natsserver

import (
	"os"
	"testing"
)

func terminate(p *os.Process) { p.Kill() }

func suspend(t testing.TB, _ *os.Process) { t.Skip("Windows cannot halt a process by a signal") }
func resume(testing.TB, *os.Process)      {}
