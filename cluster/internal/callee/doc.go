// Package callee carries out calls that other nodes, the gateways, ask this one for.
//
// # Promises
//
// A call that must not be repeated runs at most once, and only after its gateway has sent a start
// frame with the nonce that answered its offer, at most two seconds after the offer came. The two
// seconds are measured by the monotonic and by the wall clock, so that a process that was frozen or
// slept does not run the call later. A call that has begun, but waits for its server, learns by
// [session.GaveUp] that the process was frozen; the sender of the request to the server asks. IDs of
// calls are remembered for as long as a copy of their frame would count as new.
//
// Nothing runs for a node that is not trusted, on a server that is not shared, or when the node has
// more to do than its bounds allow.
//
// # Frames on the wire
//
// Each call has two queues: frames that came, which one goroutine at a time verifies and handles in
// order, and frames to send, which one goroutine at a time sends in order. Neither exists while
// nothing is queued: a call that waits for its server has one goroutine.
//
//   - Params of a notification, a question or an event that are longer than 16 KiB are the Body of
//     the frame, and Message.Params is absent.
//   - A question has Message.ID, a number that counts from 1 in its call. The answer repeats it in
//     its own Message.ID. An unanswered question is sent again from time to time, with the same
//     Seq. A Cancel frame with Message.ID withdraws the question.
//   - A question that a server asks a client outside its calls has a Home, and a Call that the
//     gateway does not know: the ID of the question alone.
//   - If the Own of an error of a result or an answer is longer than 16 KiB, it is the Body of the
//     frame, and Own has only its code.
//   - Parts and pulls belong to the call, or question, that announced the body. Bodies of
//     notifications and events are in one frame; longer ones are dropped.
//   - A State frame with Running false has an Error that says Sent false if the node knows that
//     it never ran the call.
//   - Tell frames have a Call, a random ID, so that a copy of one is recognized.
//   - A Subscribe frame has an Offer with the members that describe the client. Its Call is the ID of
//     the subscription. State with Running false says that the subscription has ended.
package callee
