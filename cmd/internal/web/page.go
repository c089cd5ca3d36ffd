package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"time"
)

// pageFiles are the files of the page. It needs no build and no other site.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy permits the page its own files and requests, and no HTML that is
// made from text: a text of a model or of a tool never becomes a script. No
// other page may show this one in a frame.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes has the type of each kind of file of the page. The MIME tables of a
// machine may give other types.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// addPage adds the page to the routes: index.html at the root, and the other
// files below /page/. The files are no secret, so a request for them needs no
// token, and a link on another site may lead to them.
func (s *Server) addPage() {
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err) // the directory is embedded
	}
	for _, f := range files {
		pattern := "GET /page/" + f.Name()
		if f.Name() == "index.html" {
			pattern = "GET /{$}"
		}
		s.mux.Handle(pattern, pageFile(f.Name()))
	}
}

// pageFile makes the handler of a file of the page. A browser asks each time
// whether the file has changed: a new version of the server has a new page.
func pageFile(name string) http.Handler {
	content, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(content)
	tag := fmt.Sprintf("%q", hex.EncodeToString(sum[:12]))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", pageTypes[path.Ext(name)])
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		extend(w, writeTimeout)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}
