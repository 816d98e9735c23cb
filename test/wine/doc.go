// Package wine runs the program's build for Windows under Wine, on Linux.
package wine
