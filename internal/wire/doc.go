// Package wire reads and writes JSON-RPC messages as bytes, and reads streams of server-sent events.
//
// A router passes on most of a message unchanged, so decoding would be nearly the whole cost of
// a call. [Parse] finds the envelope (id, method, params, result, error) in one validating scan
// of the line and returns sub-slices of it. A line that Parse accepts is valid JSON throughout,
// so its parts can be copied into another message without another check, unless Parse has found a
// fault: see [Message].
//
// All functions but Parse are pure. A [Reader] is for one goroutine at a time.
package wire
