// Package natsserver runs NATS servers for tests: processes of the nats-server that go.mod names as
// a tool, with JetStream in a folder of the test, on loopback. They end with the test.
//
// A [Relay] is a TCP connection to a server that is slow, stalls or is cut.
package natsserver
