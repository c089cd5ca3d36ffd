package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/axebus/axe/internal/toolset"
)

// maxMessage bounds a message of a server, in bytes.
const maxMessage = 16 << 20

var (
	// errUnsent says that a request was not sent to the server.
	errUnsent = errors.New("the server was not asked")
	// errGone says that the server refused a request, perhaps because it
	// does not know the connection any more (isForgotten).
	errGone = errors.New("the server may have forgotten the connection")
	// errElsewhere is the error of a request to which the SDK took an answer
	// that its transport did not see. The HTTP client follows some
	// redirects with a GET, whose answer says nothing about the request.
	errElsewhere = errors.New("the answer is not from the address of the request")
	// errTooLarge is the error of a call with an answer that is too large.
	errTooLarge = fmt.Errorf("the answer of the server is larger than %d MiB", maxMessage>>20)
)

// exchange is one request and everything that its transport knows about it. The
// SDK reports neither the bytes of an answer nor whether a request was sent. So
// the transports note both in the exchange that they find in the context.
type exchange struct {
	mu sync.Mutex
	id jsonrpc.ID
	// name is the header Mcp-Name of the request, if the SDK does not know
	// it.
	name string
	// sent says that the request may have reached the server.
	sent   bool
	answer *jsonrpc.Response
	// failure is the error of an exchange that its transport gave up.
	failure error
	// forget removes the exchange from the transport's requests in flight.
	// It is nil if the transport keeps none.
	forget func()
	// stop ends the request.
	stop context.CancelFunc
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a context, nil if it has none.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// request makes one request with a method of the SDK, and returns the JSON of
// the result.
func request(ctx context.Context, do func(context.Context) error) (json.RawMessage, error) {
	return requestNamed(ctx, "", do)
}

// requestNamed is request with the header Mcp-Name, unless the name is empty.
func requestNamed(ctx context.Context, name string, do func(context.Context) error) (json.RawMessage, error) {
	within, stop := context.WithCancel(ctx)
	defer stop()
	x := &exchange{stop: stop, name: name}
	err := do(context.WithValue(within, exchangeKey{}, x))
	return x.result(ctx, err)
}

// result returns the result of an exchange that has ended with err in the SDK.
// An answer that came counts, whatever err is, and even if ctx has ended. Next
// comes the failure that the transport noted, unless ctx has ended. Without
// both, a request that may have reached the server is lost (toolset.ErrLost).
// Any other one is errUnsent.
func (x *exchange) result(ctx context.Context, err error) (json.RawMessage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forget != nil {
		x.forget()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = errElsewhere
	}
	switch {
	case x.answer != nil && x.answer.Error != nil:
		return nil, fmt.Errorf("the server answered: %w", x.answer.Error)
	case x.answer != nil:
		return x.answer.Result, nil
	case x.failure != nil && ctx.Err() == nil:
		return nil, x.failure
	case !x.sent:
		return nil, fmt.Errorf("%w: %w", errUnsent, err)
	}
	return nil, fmt.Errorf("%w: %w", err, toolset.ErrLost)
}

// setSent notes whether the request may have reached the server.
func (x *exchange) setSent(sent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = sent
}

// expect notes the id of the request.
func (x *exchange) expect(id jsonrpc.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.id = id
}

// answered notes an answer, and reports whether it has the id of the request.
// The first one that has it counts.
func (x *exchange) answered(answer *jsonrpc.Response) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if answer.ID != x.id {
		return false
	}
	if x.answer == nil {
		x.answer = answer
	}
	return true
}

// fail sets the error of the exchange. The first one counts.
func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failure == nil {
		x.failure = err
	}
}

// failUnsent sets the error of the exchange if the request was not sent.
func (x *exchange) failUnsent(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failure == nil && !x.sent {
		x.failure = err
	}
}

// onForget sets forget.
func (x *exchange) onForget(forget func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget = forget
}
