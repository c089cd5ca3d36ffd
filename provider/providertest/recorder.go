package providertest

import (
	"io"
	"net/http"
	"strings"
)

// Recorder is an http.RoundTripper without a network. It gives the same answer
// to every request, and keeps the last request. It is not safe for concurrent
// use.
type Recorder struct {
	// Status and Answer are the response.
	Status int
	Answer string
	// URL and Sent are the address and the body of the last request.
	URL, Sent string
}

// RoundTrip implements http.RoundTripper.
func (rec *Recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	rec.URL, rec.Sent = r.URL.String(), string(sent)
	body := io.NopCloser(strings.NewReader(rec.Answer))
	return &http.Response{StatusCode: rec.Status, Header: http.Header{}, Body: body}, nil
}
