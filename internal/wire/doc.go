// Package wire reads and writes JSON-RPC messages as bytes.
//
// A router passes most of a message on as it is, so decoding it would be nearly
// the whole cost of a call. This package finds the envelope (id, method,
// params, result, error) by one validating scan of the line, and hands out
// sub-slices of it. A message that Parse accepts is valid JSON throughout, so
// what it hands out can be spliced into another message without a further look.
//
// Everything here is pure but Reader, and safe for concurrent use on different
// values.
package wire
