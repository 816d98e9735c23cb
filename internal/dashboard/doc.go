// Package dashboard is the page for whoever wants to see what the router does: its
// servers, tools, calls and configuration, live, and a few things to do about them.
//
// A [Dashboard] is an observer of the selector: it remembers the last calls, and counts
// those of the last minutes, whether or not anybody looks. All else is read when a page
// asks for it, so that a router without one pays nothing for it.
//
// Whoever may call tools may do all that the page does. Who that is decides whoever
// serves [Dashboard.Register]'s routes; they only make sure themselves that no page of
// another origin sends their POST requests.
package dashboard
