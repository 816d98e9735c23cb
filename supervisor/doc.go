// Package supervisor keeps MCP servers alive. It is the only package that knows
// processes.
//
// A [Supervisor] is told what should run by a channel of configurations and
// makes it so: each server has one goroutine, whose function server.run is the
// server's life from its first start to its last stop. Whoever wants to use a
// server asks for its [session.Session], waiting if need be while it starts.
// Whoever wants to know what a server offers is a [Handler], which is shown each
// new session before anyone else may use it.
//
// When Run returns, no process that it started is left. When the router itself
// dies without a word, a guard process sees to that: see [Guard].
package supervisor
