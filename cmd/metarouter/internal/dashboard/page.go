// Package dashboard is the page that shows a running router to a person: its files, and the key
// that lets a browser of this machine in. What the page shows comes from the API of package admin.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
)

// page has the files that browsers load.
//
//go:embed page
var page embed.FS

// policy lets the page load only its own files, and lets no page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Index answers with the page.
func Index(w http.ResponseWriter, r *http.Request) { show(w, r, "index.html") }

// File answers with the page's file that the path value "file" names. Folders are not listed.
func File(w http.ResponseWriter, r *http.Request) { show(w, r, r.PathValue("file")) }

// show answers with one of the page's files. Browsers ask each time whether their copy is
// the newest, since another version of the program may answer next.
func show(w http.ResponseWriter, r *http.Request, name string) {
	name = "page/" + name
	if info, err := fs.Stat(page, name); err != nil || info.IsDir() {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", edition())
	http.ServeFileFS(w, r, page, name)
}

// edition identifies the version of the page's files.
var edition = sync.OnceValue(func() string {
	all := sha256.New()
	if err := fs.WalkDir(page, "page", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := page.ReadFile(path)
		fmt.Fprintf(all, "%s %d ", path, len(text))
		all.Write(text)
		return err
	}); err != nil {
		panic(err) // the folder is a part of the program
	}
	return fmt.Sprintf("%q", hex.EncodeToString(all.Sum(nil)[:12]))
})
