// Package dashboard is the page that shows the router to a person: its servers, tools,
// calls and configuration, live, with buttons to restart servers and to call tools.
//
// A [Dashboard] is an observer of the selector: it keeps the last calls and counts the
// calls of the last minutes, even while no page is open. It reads everything else when a
// page asks for it, so a router without an open page pays nothing for it.
//
// A client that may call tools may do everything that the page does. The caller decides
// who that is: it serves the routes of [Dashboard.Register]. The routes themselves only
// refuse POST requests from pages of another origin.
package admin
