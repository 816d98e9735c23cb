package session

// GaveUp returns why a client is taken to wait no more for a request of its that was not sent yet;
// nil if it waits, as far as this router knows. The error wraps [ErrNotSent]. A client of another node
// may have given up while this process was frozen, and no message can have said so. from may be nil.
func GaveUp(from Client) error {
	if of, ok := from.(interface{ GaveUp() error }); ok {
		return of.GaveUp()
	}
	return nil
}
