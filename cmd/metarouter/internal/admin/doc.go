// Package admin is the JSON API of a router: the one way in for the page that shows the router to a
// person, and for commands.
//
// An [API] is an observer of the selector: it keeps the last calls and counts the calls of the
// last minutes, even while no page is open. It reads everything else when it is asked, so a router
// that nothing asks pays nothing for it.
//
// Who may send requests may do everything that the page and commands do. The caller decides who that
// is: it serves the routes of [API.Register]. The routes themselves only refuse requests that browsers
// send for pages of another origin. [ForCommands] marks requests of commands of the router's own user.
//
// The types of api.go are the page's, those of answers.go the commands' too.
package admin
