package wire

import (
	"net/url"
	"strings"

	"github.com/axebus/axe/provider"
)

// resolveURL returns the URL of path below base. It also returns base without
// userinfo and query, for errors.
func resolveURL(base, path string) (target, shown string, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		shown = redactURL(base)
		// The parser's own error may quote a password.
		return "", shown, &provider.Error{
			Category: provider.BadRequest,
			Message:  "base URL " + shown + " is malformed: it must be http://host or https://host",
		}
	}
	u.Fragment = ""
	target = u.JoinPath(path).String()
	u.User, u.RawQuery = nil, ""
	return target, u.String(), nil
}

// redactURL removes possible secrets from a malformed URL.
func redactURL(base string) string {
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
	return `"` + e.printable(scheme+rest, limit) + `"`
}
