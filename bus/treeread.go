package bus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/subjects"
)

// A user without the right to read the streams reads one tree at a time,
// through the workers: they offer a part of the JetStream API under a prefix
// for each tree (subjects.Space.ReadAPI). A worker checks that a request is
// about the tree, and sends it on to the server, which answers the user. So a
// user reads the trees that it knows the ids of. An id of NewID cannot be
// guessed.

// treeReaders is the queue group of the workers. One of them gets each request.
const treeReaders = "axe-readers"

// ServeTreeReads answers requests for reads of trees, until ctx ends. It
// returns at once.
func ServeTreeReads(ctx context.Context, c *Conn) error {
	subject := c.Space().TreeReads()
	sub, err := c.nc.QueueSubscribe(subject, treeReaders, func(m *nats.Msg) {
		if err := forwardRead(c, m); err != nil {
			refuseRead(m, err)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	return nil
}

// refuseRead answers a request as the server answers one that it refuses: with
// headers for a direct get, and with JSON for all others.
func refuseRead(m *nats.Msg, why error) {
	if !isAsker(m.Reply) {
		return
	}
	answer := nats.NewMsg(m.Reply)
	answer.Header.Set("Status", "403")
	answer.Header.Set("Description", why.Error())
	answer.Data, _ = json.Marshal(map[string]any{
		"error": jetstream.APIError{Code: 403, Description: why.Error()},
	})
	_ = m.RespondMsg(answer)
}

// importedReply begins the reply subject of a request from another account. The
// server makes it, and hands the answers to that account.
const importedReply = "_R_."

// isAsker reports whether a reply subject is one of a client and of no stream.
func isAsker(reply string) bool {
	return subjects.IsInbox(reply) || strings.HasPrefix(reply, importedReply)
}

// The errors of requests for reads.
var (
	errReadReply = errors.New("the reply subject must be an inbox")
	errReadAPI   = errors.New("a tree has only STREAM.INFO, STREAM.MSG.GET and DIRECT.GET, of its streams")
	errReadTree  = errors.New("the request must be about messages of the tree alone")
)

// readRequest has the fields of the requests for reads that a worker sends on.
type readRequest struct {
	directGet
	// Subjects asks for the counts of the messages of subjects.
	Subjects string `json:"subjects_filter,omitzero"`
	Offset   int    `json:"offset,omitzero"`
}

// forwardRead checks a request and sends it on. The server answers to its reply
// subject, which has to be an inbox: no other subject may get a message with
// the rights of a worker.
func forwardRead(c *Conn, m *nats.Msg) error {
	if !isAsker(m.Reply) {
		return errReadReply
	}
	tree, api, err := c.Space().ParseRead(m.Subject)
	if err != nil {
		return err
	}
	var r readRequest
	if len(m.Data) > 0 {
		into := json.NewDecoder(bytes.NewReader(m.Data))
		into.DisallowUnknownFields()
		if err := into.Decode(&r); err != nil {
			return err
		}
	}
	if err := checkRead(c, tree, api, r); err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(m.Reply, importedReply) {
		single := !strings.HasPrefix(api, "DIRECT.GET.") || r.Batch == 0 && len(r.MultiLast) == 0
		return relayRead(c, m.Reply, single, &nats.Msg{Subject: c.reader.api + api, Data: body})
	}
	return c.nc.PublishRequest(c.reader.api+api, m.Reply, body)
}

// relayTimeout bounds the time for the answers to a request of another account.
const relayTimeout = time.Minute

// relayRead sends a request, and hands its answers to a client of another
// account. The server lets no client name such a reply subject in a request of
// its own. Single says that there is one answer. Otherwise an answer with a
// status is the last one, unless it is a stored message: its writer chose its
// headers.
func relayRead(c *Conn, to string, single bool, request *nats.Msg) error {
	request.Reply = c.nc.NewInbox()
	sub, err := c.nc.Subscribe(request.Reply, func(m *nats.Msg) {
		header := m.Header
		if !isWhole(m) {
			header = nil // what it hides must not look whole to the asker
		}
		_ = c.nc.PublishMsg(&nats.Msg{Subject: to, Header: header, Data: m.Data})
		if last := header.Get("Status") != "" && header.Get(jetstream.SequenceHeader) == ""; single || last {
			_ = m.Sub.Unsubscribe()
		}
	})
	if err != nil {
		return err
	}
	time.AfterFunc(relayTimeout, func() { _ = sub.Unsubscribe() })
	return c.nc.PublishMsg(request)
}

// checkRead refuses a request that is about more than a tree. Subject is that
// of the JetStream API without its prefix.
func checkRead(c *Conn, tree subjects.Tree, subject string, r readRequest) error {
	at := strings.LastIndexByte(subject, '.')
	api, stream := subject[:max(at, 0)], subject[at+1:]
	filters := r.MultiLast
	for _, f := range []string{r.NextFor, r.LastFor, r.Subjects} {
		if f != "" {
			filters = append(filters, f)
		}
	}
	space := c.Space()
	runs := c.streams.Load().names
	objects := objectStream(space)
	cards := agentsBucket(c)
	agents := cards.streamName()
	streams := append(slices.Clone(runs), space.Name("SUBMIT"), objects, agents)
	switch {
	case api != "STREAM.INFO" && api != "STREAM.MSG.GET" && api != "DIRECT.GET", !slices.Contains(streams, stream):
		return errReadAPI
	case stream == agents:
		if api != "STREAM.MSG.GET" || len(filters) != 1 || r.Seq != 0 || !isGrantKey(cards, r.LastFor) {
			return errReadTree
		}
		return nil
	case api == "STREAM.INFO" && len(filters) == 0 && r.Seq == 0:
		return nil // the settings and the sums of a stream
	case len(filters) == 0, tree.IsZero():
		return errReadTree
	}
	for _, f := range filters {
		of, ok := space.TreeIn(f)
		if stream == objects {
			of, ok = tree, ofObject(space, tree, f)
		}
		if !ok || of != tree {
			return errReadTree
		}
	}
	return nil
}

// isGrantKey reports whether a subject is that of the grant of one key. A grant
// is no secret.
func isGrantKey(cards *bucket, subject string) bool {
	key, ok := strings.CutPrefix(subject, cards.subject(grantPrefix))
	return ok && nkeys.IsValidPublicUserKey(key)
}

// ofObject reports whether a subject is one of an artifact of the tree, or one
// of a large body: its name cannot be guessed.
func ofObject(space subjects.Space, tree subjects.Tree, subject string) bool {
	if strings.ContainsAny(subject, "*>") {
		return false
	}
	if name, ok := strings.CutPrefix(subject, objectSubject(space, "C", "")); ok {
		return name != ""
	}
	object, ok := objectOf(space, subject)
	of, artifact := "", false
	if ok {
		of, _, artifact = strings.Cut(object, "/")
	}
	return ok && (!artifact || of == tree.String())
}

// ErrNoReader is wrapped by the error of a user that may read through the
// workers alone, while no worker answers.
var ErrNoReader = errors.New("no worker answers, and this user reads through the workers alone")

// Restricted reports whether the user of a connection reads trees through the
// workers, because it has no right to read the streams. It gets no live copies
// then: Watch calls nothing.
func Restricted(c *Conn) bool { return c.reader.restricted.Load() }

// apiOf is the prefix of the JetStream API for a read that a filter describes.
// It has a dot at its end.
func apiOf(c *Conn, filter string) string {
	if tree, ok := c.Space().TreeIn(filter); ok {
		return apiOfTree(c, tree)
	}
	return c.reader.api
}

// apiOfTree is the prefix of the JetStream API for a request about a tree, or
// about none with the zero Tree. It has a dot at its end.
func apiOfTree(c *Conn, tree subjects.Tree) string {
	if Restricted(c) {
		return c.Space().ReadAPI(tree)
	}
	return c.reader.api
}

// restrict makes the connection read through the workers from now on, if one of
// them answers. Why is the violation by which the user has no right to read the
// first stream.
func restrict(ctx context.Context, c *Conn, why error) (jetstream.Stream, error) {
	why = cmp.Or(why, nats.ErrNoResponders)
	s, err := askOnce(ctx, c, func(ctx context.Context) (jetstream.Stream, error) {
		return streamBy(ctx, c, c.Space().ReadAPI(subjects.Tree{}), c.cfg.Space.Stream(0).Name)
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return nil, fmt.Errorf("%w; %w", why, ErrNoReader)
	case Forbidden(err):
		return nil, why
	case err != nil:
		return nil, err
	}
	c.reader.restricted.Store(true)
	return s, nil
}
