// Package telemetry exports the work of the router: metrics for Prometheus ([Metrics]), spans
// for an OpenTelemetry collector ([Traces]), and a file with a line for each call
// ([AccessLog]).
//
// Metrics and AccessLog are observers of a selector; see
// [github.com/mcp-metarouter/metarouter/selector.Observer]. No call waits for any of them.
// Only the access log has arguments and results, if the configuration asks for them, and
// it masks everything that looks like a secret.
package telemetry
