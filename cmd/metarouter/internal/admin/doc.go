// Package admin is the JSON API of a router: the one way in for the page that shows the router to a
// person, and for commands.
//
// An [API] is an observer of the selector: it keeps the last calls and counts the calls of the
// last minutes, even while no page is open. It reads everything else at each request.
//
// The table of routes names for each path the function that answers and the requests that it accepts. All
// routes are for clients of the role "admin" alone; the caller of [API.Register] serves them only to these.
// [ForCommands] marks requests of commands of the router's own user.
//
// The types of api.go are for the page, the types of answers.go also for commands.
package admin
