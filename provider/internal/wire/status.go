package wire

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/axebus/axe/provider"
)

// statusOverloaded is Anthropic's status for an overloaded server. The package
// net/http has no name for it.
const statusOverloaded = 529

// maxRetryAfter bounds the pause that a server may ask for.
const maxRetryAfter = 24 * time.Hour

// category maps a status other than success. OpenAI and Ollama answer 503 when
// they are overloaded. Any other 5xx is a failure of the server, or of a proxy
// in front of it.
func category(status int) provider.Category {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return provider.Auth
	case http.StatusTooManyRequests:
		return provider.RateLimit
	case http.StatusRequestTimeout:
		return provider.Timeout
	case http.StatusServiceUnavailable, statusOverloaded:
		return provider.Overloaded
	}
	if status >= http.StatusInternalServerError {
		return provider.Server
	}
	return provider.BadRequest
}

// retryAfter parses the header Retry-After: a number of seconds or an HTTP
// date. It returns 0 for a malformed header and for a date in the past.
func retryAfter(header string, now time.Time) time.Duration {
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil && !math.IsInf(seconds, 0) {
		t, err := http.ParseTime(header)
		if err != nil {
			return 0
		}
		seconds = t.Sub(now).Seconds()
	}
	if !(seconds > 0) { // NaN too
		return 0
	}
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
