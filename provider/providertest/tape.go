package providertest

import (
	"io"
	"net/http"
	"strings"
)

// Tape is an http.RoundTripper without a network: it answers always the same,
// and keeps what it was last asked. It is for one request at a time.
type Tape struct {
	Status    int
	Answer    string
	URL, Sent string
}

// RoundTrip implements http.RoundTripper.
func (t *Tape) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	t.URL, t.Sent = r.URL.String(), string(sent)
	return &http.Response{
		StatusCode: t.Status,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader(t.Answer)),
	}, nil
}
