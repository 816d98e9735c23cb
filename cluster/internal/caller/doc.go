// Package caller makes calls of servers of other nodes: it is the side of the gateway, which has the
// clients. Package callee is the other side; its documentation describes the frames.
//
// # Promises
//
// A call ends: with a result that the node has signed for exactly this call, with the error of its
// server, or with an error that says whether it may have run. It counts as sent when its start frame
// was sent, or, if it may be repeated, its offer. A call that was not sent was not run and will not
// be: its error wraps [session.ErrNotSent]. If the node is lost, ends, or forgets a call that was
// sent, the error wraps [session.ErrClosed].
//
// Frames may get lost, come twice, or be forged. A gateway that hears nothing of a call asks for it.
//
// # Goroutines
//
// A call runs on the goroutine of its user, which also checks the signatures of its frames. Each
// question of a server to a client, and each subscription, has a goroutine of its own, which ends
// with the call, the subscription, or [Caller.Run].
package caller
