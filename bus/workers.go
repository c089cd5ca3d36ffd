package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Workers is the bucket of the workers' entries: one small value for each
// worker, under its name. It has the lists of agents that the entries name, too
// (PutAgents). A worker also answers requests on a subject of its own, so the
// server knows at once when its process is gone. Workers is safe for concurrent
// use.
type Workers struct{ *bucket }

// workerMaxAge is the time for which the bucket remembers a worker that is
// gone.
const workerMaxAge = 24 * time.Hour

// Workers is the bucket of the workers' entries. It makes no request yet.
func (c *Conn) Workers() *Workers {
	b := c.bucket("WORKERS", "Workers that serve agents, or served them in the last day")
	b.maxAge = workerMaxAge
	return &Workers{b}
}

// workersTimeout bounds a read of the bucket, and a request to a worker.
const workersTimeout = time.Second

// List reads the entries that workers have stored since a time of the server;
// all entries for the zero time. It asks once, and waits for 1 s at most. There
// are none on a bus that no worker has used, which has no bucket, and for a
// user that is Restricted.
func (w *Workers) List(ctx context.Context, since time.Time) ([]Stored, error) {
	if Restricted(w.conn) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	all, _, err := w.list(ctx, "*", since)
	if errors.Is(err, errNoResponder) {
		_, missing := w.conn.js.Stream(ctx, w.streamName())
		if errors.Is(missing, jetstream.ErrStreamNotFound) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w, err)
	}
	return all, nil
}

// Entry reads the entry of one worker; ok is false if there is none. It asks
// once, and waits for 1 s at most.
func (w *Workers) Entry(ctx context.Context, worker subjects.Worker) (entry Stored, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	ms, _, err := w.get(ctx, directGet{MultiLast: []string{w.subject(worker.String())}})
	if err != nil || len(ms) == 0 {
		return Stored{}, false, err
	}
	return ms[0], true, nil
}

// Swap stores a worker's entry if the last revision is was; 0 means that there
// is none. It tries until ctx ends. The error wraps a *ConflictError if there
// is another revision.
func (w *Workers) Swap(ctx context.Context, worker subjects.Worker, was uint64, entry []byte) (rev uint64, err error) {
	return w.store(ctx, worker.String(), was, entry)
}

// Answers are a worker's answers to questions.
type Answers struct {
	// Recall returns the answer of a model, nil if the worker does not know
	// it.
	Recall func(key string) []byte
	// Work returns the work in hand, encoded: of one tree or, for the empty
	// id, of all.
	Work func(tree string) []byte
}

// Answer begins to answer requests to a worker, and returns: signs of life, and
// the questions of Keeps, Recall and Work. The answers end with ctx.
func (w *Workers) Answer(ctx context.Context, worker subjects.Worker, answers Answers) error {
	subject := w.conn.Space().Worker(worker)
	sub, err := w.conn.nc.Subscribe(subject, func(m *nats.Msg) {
		// A client must not write to other subjects with the rights of
		// a worker.
		if subjects.IsInbox(m.Reply) {
			_ = m.Respond(w.answer(m, answers))
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	return nil
}

// keeping is the answer of a worker that keeps a message.
const keeping = "keeping"

const (
	// recalling begins the body of a request for the answer of a model.
	recalling = "recall "
	// working begins the body of a request for the work in hand.
	working = "work "
)

// answer answers a request. One with a body asks for the answer of a model, or
// names a delivery by the subject for its acknowledgement. The answer to one
// without a body is the stream that keeps the worker from its work, and why.
func (w *Workers) answer(request *nats.Msg, answers Answers) []byte {
	if len(request.Data) == 0 {
		return []byte(w.conn.Health.Trouble())
	}
	if key, ok := strings.CutPrefix(string(request.Data), recalling); ok {
		return answers.Recall(key)
	}
	if tree, ok := strings.CutPrefix(string(request.Data), working); ok {
		return answers.Work(tree)
	}
	named := &nats.Msg{Reply: string(request.Data), Sub: request.Sub}
	if w.conn.leases.keep(named, time.Now(), w.conn.cfg.AckWait) {
		return []byte(keeping)
	}
	return nil
}

// Keeps asks a worker whether it has the message of a delivery in hand from an
// earlier delivery, and its lease is not over. If so, that worker keeps the
// message: from then on it renews and acknowledges this delivery. The caller
// must Leave it. A worker that does not answer within a second counts as one
// without the message.
func (w *Workers) Keeps(ctx context.Context, worker subjects.Worker, d *Delivery) bool {
	answer, err := w.request(ctx, worker, []byte(d.msg.Load().Reply))
	return err == nil && string(answer) == keeping
}

// Recall asks a worker for the answer of a model; nil if the worker does not
// know it. A worker that does not answer within a second does not know it.
func (w *Workers) Recall(ctx context.Context, worker subjects.Worker, key string) []byte {
	answer, err := w.request(ctx, worker, []byte(recalling+key))
	if err != nil {
		return nil
	}
	return answer
}

// Work asks a worker for the runs in its hand: of one tree or, for the zero
// Tree, of all. The answer is empty if the worker is of a version that does not
// know the question. The error is ErrNoWorker if the server knows no process of
// that name. After any other error the worker may be alive.
func (w *Workers) Work(ctx context.Context, worker subjects.Worker, tree subjects.Tree) ([]byte, error) {
	return w.request(ctx, worker, []byte(working+tree.String()))
}

// ErrNoWorker is the error of a request to a worker without a process.
var ErrNoWorker = errors.New("no process answers for the worker")

// Ask asks a worker for a sign of life, once, and waits for 1 s at most. The
// error is ErrNoWorker if the server knows no process of that name. After any
// other error the worker may be alive: it may be frozen, or cut off from the
// server.
//
// Trouble is the stream that keeps the worker from its work, and why; ""
// without one. An older worker says nothing of it.
func (w *Workers) Ask(ctx context.Context, worker subjects.Worker) (trouble string, _ error) {
	answer, err := w.request(ctx, worker, nil)
	return string(answer), err
}

// request asks a worker once, and waits for 1 s at most. The error is
// ErrNoWorker if the server knows no process of that name.
func (w *Workers) request(ctx context.Context, worker subjects.Worker, body []byte) (answer []byte, _ error) {
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	subject := w.conn.Space().Worker(worker)
	ctx, r := w.conn.inflight.begin(ctx, subject)
	defer r.done()
	m, err := w.conn.nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		err = ErrNoWorker
	}
	if err != nil {
		return nil, r.reason(err)
	}
	return m.Data, nil
}

// agentsKey is the key of a list of agents. List does not see it.
func agentsKey(list string) string { return "agents." + list }

// PutAgents stores a list of agents under its name, which follows from the
// list. It tries until ctx ends.
func (w *Workers) PutAgents(ctx context.Context, list string, body []byte) error {
	_, rev, _, err := w.agents(ctx, list)
	if err != nil {
		return err
	}
	_, err = w.store(ctx, agentsKey(list), rev, body)
	if _, there := errors.AsType[*ConflictError](err); there {
		return nil // another worker has stored the same list
	}
	return err
}

// Agents reads a list of agents; ok is false if there is none. It tries for
// 1 s.
func (w *Workers) Agents(ctx context.Context, list string) (body []byte, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	body, _, ok, err = w.agents(ctx, list)
	return body, ok, err
}

func (w *Workers) agents(ctx context.Context, list string) (body []byte, rev uint64, ok bool, err error) {
	err = w.do(ctx, func() (again bool, _ error) {
		ms, again, err := w.get(ctx, directGet{MultiLast: []string{w.subject(agentsKey(list))}})
		if err == nil && len(ms) > 0 {
			body, rev, ok = ms[0].Body, ms[0].Seq, true
		}
		return again, err
	})
	return body, rev, ok, err
}
