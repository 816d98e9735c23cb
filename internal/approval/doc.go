// Package approval asks a person before a call is made.
//
// A [Request] is the call that a rule holds back. A [Desk] has it approved or not, by the first
// answer: of the client's person, asked by a [Person], or of an admin, who sees the requests of
// [Desk.List] on the router's page.
//
//	Desk.Ask ─▶ asks the Person, while the request is on the desk      the client can be asked
//	        └─▶ puts the request on the desk, and fails                it can't
//
// In the second case, the same request passes once if an admin approves it and the client
// sends it again. Requests are the same if they have the same hash of all that an admin
// sees, and of the rules: see [Request.Key].
//
// An approval is for one call, and lasts for [Lifetime]. Nothing is stored: a router that is
// started again asks again. A Desk starts no goroutine and no timer.
package approval
