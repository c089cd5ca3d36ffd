package wire

import (
	"net/url"
	"strings"

	"github.com/axebus/axe/provider"
)

// join is the URL of path below base, and base as an error may show it: without
// userinfo and query.
func join(base, path string) (target, shown string, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		shown = strip(base)
		// The parser's own error quotes what it could not parse, a
		// password for example.
		return "", shown, &provider.Error{
			Category: provider.BadRequest,
			Message:  "base URL " + shown + " is malformed: want http://host or https://host",
		}
	}
	u.Fragment = ""
	target = u.JoinPath(path).String()
	u.User, u.RawQuery = nil, ""
	return target, u.String(), nil
}

// strip removes what may be secret from a text that is no URL.
func strip(base string) string {
	const limit = 100
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok {
		scheme, rest = "", base
	} else {
		scheme += "://"
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "?")
	e := Endpoint{}
	return `"` + e.line(scheme+rest, limit) + `"`
}
