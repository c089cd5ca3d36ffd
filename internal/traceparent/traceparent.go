// Package traceparent carries the W3C trace context of a request to the client
// that makes the request. It does not look at the value.
//
//	ctx = traceparent.With(ctx, header)
//	...
//	traceparent.Set(ctx, req.Header)
package traceparent

import (
	"context"
	"net/http"
)

// Name is the name of the header, and of the field of _meta in MCP.
const Name = "traceparent"

type key struct{}

// With returns a context for requests that have the value.
func With(ctx context.Context, value string) context.Context {
	return context.WithValue(ctx, key{}, value)
}

// Of returns the value for requests of a context, "" for none.
func Of(ctx context.Context) string {
	value, _ := ctx.Value(key{}).(string)
	return value
}

// Set sets the header of a request, if its context has a value.
func Set(ctx context.Context, h http.Header) {
	if value := Of(ctx); value != "" {
		h.Set(Name, value)
	}
}
