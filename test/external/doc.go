// Package external finds and starts programs that are not part of this module, for tests: npm
// packages at locked versions, interpreters and browsers of the machine, published MCP servers
// and clients, and the official conformance suite.
//
// Every function that needs such a program skips the test if the program is missing, or fails
// it if CI is set in the environment. In a short test run all of them skip the test.
package external
