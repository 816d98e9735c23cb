// Package early does nothing: on Windows no process guard runs.
package early
