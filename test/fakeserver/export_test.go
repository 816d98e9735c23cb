package fakeserver

// For the tests of this package, which use the clients of package mcptest and so are in a
// package of their own.
var (
	BadTools = badTools
	Stray    = stray
)
