// Package address finds addresses for programs that tests start.
package address

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that systems give to connections. Such a connection could take the port of
// a program while that is down.
const lowest, highest = 10_000, 29_999

var (
	mu    sync.Mutex // guards given
	given = map[string]bool{}
)

// Free returns an address of this machine, such as "127.0.0.1:12345", on which no program listened just
// now. This process gets no address twice, so that the address is still free when a program that was
// down starts again. It tries 100 ports.
func Free() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	err := errors.New("this process has got nearly all addresses")
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest+1))
		if given[address] {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			given[address] = true
			return address, l.Close()
		}
	}
	return "", err
}
