package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/httpguard"
)

// TestPage: the page and its files are served with their types, and with a
// policy that lets no text of the bus become a script. They need no token, and
// name no other site. A browser that has a file is told so.
func TestPage(t *testing.T) {
	h := &harness{t: t}
	h.open()
	h.serve(httpguard.OneToken("secret"))
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := "/page/" + f.Name()
		if f.Name() == "index.html" {
			path = "/"
		}
		status, header, body := h.do(h.request(http.MethodGet, path, ""))
		text, _ := pageFiles.ReadFile("page/" + f.Name())
		if status != http.StatusOK || body != string(text) {
			t.Errorf("%s: status %d, %d bytes; want 200 and the file of %d bytes", path, status, len(body), len(text))
		}
		for name, want := range map[string]string{
			"Content-Type":            pageTypes[f.Name()[strings.LastIndex(f.Name(), "."):]],
			"Content-Security-Policy": pagePolicy,
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Cache-Control":           "no-cache",
		} {
			if got := header.Get(name); got != want || want == "" {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		r := h.request(http.MethodGet, path, "")
		r.Header.Set("If-None-Match", header.Get("ETag"))
		if status, _, _ := h.do(r); status != http.StatusNotModified {
			t.Errorf("%s with its ETag: status %d, want 304", path, status)
		}
		body = strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")
		foreign := regexp.MustCompile(`https?://[^"' ]+`).FindString(body)
		if foreign != "" {
			t.Errorf("%s names %s, want no other site", path, foreign)
		}
	}
	for _, part := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	} {
		if !strings.Contains(pagePolicy, part) {
			t.Errorf("the policy of the page lacks %s", part)
		}
	}
	for _, path := range []string{"/page/", "/page/index.html", "/page/none.js", "/none"} {
		if status, _, _ := h.do(h.request(http.MethodGet, path, "")); status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, status)
		}
	}
	r := h.request(http.MethodGet, "/", "")
	r.Host = "evil.example"
	if p := h.refused(r); p.Status != http.StatusForbidden {
		t.Errorf("the page under a rebound name: %+v, want status 403", p)
	}
	// A link on another site may lead to the page.
	r = h.request(http.MethodGet, "/", "")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _, _ := h.do(r); status != http.StatusOK {
		t.Errorf("the page by a link of another site: status %d, want 200", status)
	}
}
