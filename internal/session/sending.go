package session

// Sending tells a client that a request of its is about to be sent; repeatable says that the request may
// take effect twice. An error is why it is not sent, and wraps [ErrNotSent] if another server may get it: the client
// is taken to wait no more, or a request like it was sent before. from may be nil.
func Sending(from Client, repeatable bool) error {
	if of, ok := from.(interface{ Sending(repeatable bool) error }); ok {
		return of.Sending(repeatable)
	}
	return nil
}
