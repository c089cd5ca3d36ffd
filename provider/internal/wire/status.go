package wire

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/axebus/axe/provider"
)

// statusOverloaded is what Anthropic answers when it is too busy; net/http has
// no name for it.
const statusOverloaded = 529

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// category says what a status other than success means. 503 is what OpenAI and
// Ollama answer when they are too busy; all other 5xx are failures of the
// server, or of a proxy before it.
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

// retryAfter parses the header of that name: seconds or an HTTP date. What is
// no such thing, or already over, is 0.
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
