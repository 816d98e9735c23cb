// Package dashboard is the page for whoever wants to see what the router does: its
// servers, tools, calls and configuration, live, and a few things to do about them.
package dashboard
