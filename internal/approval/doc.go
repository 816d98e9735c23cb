// Package approval asks a person before a call is made.
//
// A [Request] is the call that a rule holds back. A [Desk] has it approved or not, by whoever
// is first: the client's person, whom a [Person] asks, or an admin, who sees on the router's
// page what [Desk.List] returns.
//
//	Desk.Ask ─▶ asks the Person, while the request is on the desk      the client can be asked
//	        └─▶ puts the request on the desk, and fails                it can't
//
// In the second case, the same request passes once if an admin approves it and the client
// sends it again. What is the same is decided by the hash of all that an admin sees, and of
// the rules: see [Request.Key].
//
// An approval is for one call, and lasts for [Lifetime]. Nothing is stored: a router that is
// started again asks again. A Desk starts no goroutine and no timer.
package approval
