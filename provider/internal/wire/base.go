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
		message := "base URL " + shown + " is malformed: it must be http://host or https://host"
		return "", shown, &provider.Error{Category: provider.BadRequest, Message: message}
	}
	u.Fragment = ""
	target = u.JoinPath(path).String()
	u.User, u.RawQuery = nil, ""
	return target, u.String(), nil
}

// redactURL removes possible secrets from a malformed URL: all before the last
// @ but the scheme, and a query.
func redactURL(base string) string {
	const limit = 100
	scheme, rest := "", base
	if before, after, ok := strings.Cut(base, "://"); ok && !strings.ContainsAny(before, "@?") {
		scheme, rest = before+"://", after
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "?")
	return `"` + new(Endpoint).printable(scheme+rest, limit) + `"`
}
