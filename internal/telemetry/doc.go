// Package telemetry tells people outside what the router does: in metrics that
// Prometheus reads ([Metrics]), in spans that an OpenTelemetry collector gets
// ([Traces]), and in a file with a line for each call ([AccessLog]).
//
// Metrics and AccessLog are observers of a selector; see
// [github.com/mcp-metarouter/metarouter/selector.Observer]. None of them keeps a call
// waiting, and none sees more than it tells: arguments and results are in the access log
// alone, if they are asked for, and with what looks like a secret masked.
package telemetry
