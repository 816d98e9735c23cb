// Package launch turns an entry of the configuration into a running process: it
// finds the command, lets npx and uvx fetch packages, a few at a time, and starts the command that
// they would run without them. It also keeps the cached probe results of servers.
//
// # Order of a start
//
// [Launcher.AwaitTurn] waits until few other servers fetch a package,
// [Launcher.Fetch] has the runner fetch the package and report the command that it would run (see
// [process.Report]), and [Launcher.Start] starts that, or the command as the entry has it. The client of a
// container engine gets options by which its container can be stopped.
//
// # Imports
//
// The package imports package process, and package peer for [peer.Era] alone. It
// knows no session.
package launch
