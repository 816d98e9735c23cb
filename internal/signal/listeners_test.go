package signal

import "testing"

func TestListeners(t *testing.T) {
	var l Listeners[func()]
	hear := func() {
		for one := range l.All() {
			one()
		}
	}
	hear()
	var first, second int
	stop := l.Add(func() { first++ })
	stopSecond := l.Add(func() { second++ })
	hear()
	stop()
	stop()
	hear()
	stopSecond()
	hear()
	if first != 1 || second != 2 {
		t.Errorf("the first heard %d times, the second %d; want 1 and 2", first, second)
	}
}
