package bus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/subjects"
)

// Grants decide which outcomes count. Without Config.Signers all of them do.
// With them an outcome counts if it is signed by a key with a grant for the
// called agent, and one of the signers has signed that grant.
//
// A grant is a value of the bucket of known agents, under "grant." and the key.
// The user of a worker has no permission for such a key of the bucket. A reader
// asks the stream's leader for the grant of a key, and keeps it for grantKept.
type Grants struct {
	conn    *Conn
	signers map[string]bool
	own     *signer

	mu    sync.Mutex
	known map[string]knownGrant
	// granted are the keys that a watch of the bucket has shown a grant of.
	granted map[string]bool
	// logged are the refused messages that were logged.
	logged map[string]bool
}

// knownGrant is the grant of a key as it was read; why says why there is none
// that counts.
type knownGrant struct {
	grant.Grant
	why  string
	read time.Time
}

// grantKept is the time for which a reader takes a grant for the present one. A
// worker sees a change at once.
const grantKept = 10 * time.Second

// maxKnown bounds the keys, and the logged messages, that a reader remembers.
// Their number is in the hand of any writer.
const maxKnown = 1000

const grantPrefix = "grant."

func newGrants(c *Conn, signers []string) (*Grants, error) {
	g := &Grants{
		conn: c, signers: map[string]bool{}, own: signerOf(&c.cfg, c.nc), known: map[string]knownGrant{},
		granted: map[string]bool{}, logged: map[string]bool{},
	}
	for _, s := range signers {
		if !grant.IsSigner(s) {
			return nil, fmt.Errorf("a signer must be the public key of an account or an operator, A… or O…, got %q", s)
		}
		g.signers[s] = true
	}
	return g, nil
}

// Required reports whether outcomes have to be signed.
func (g *Grants) Required() bool { return len(g.signers) > 0 }

// heard notes a change of the bucket. It returns false for the key of a card.
func (g *Grants) heard(key string, value []byte) bool {
	of, ok := strings.CutPrefix(key, grantPrefix)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, of)
	if value == nil {
		delete(g.granted, of)
	} else {
		g.granted[of] = true
	}
	return true
}

// sign signs a message if the key of this connection has a grant.
func (g *Grants) sign(msg *nats.Msg, body []byte) error {
	g.mu.Lock()
	none := g.own == nil || len(g.granted) == 0
	g.mu.Unlock()
	if none {
		return nil
	}
	key, err := g.own.public()
	if err != nil {
		return fmt.Errorf("sign %s: %w", msg.Subject, err)
	}
	g.mu.Lock()
	granted := g.granted[key]
	g.mu.Unlock()
	if !granted {
		return nil
	}
	return g.own.sign(msg, key, body)
}

// Refusal says why an outcome does not count. The zero value is none.
type Refusal struct {
	// Key is the public key that the message names, "" for none.
	Key string
	// Why is "" for an outcome that counts.
	Why string
	// OtherAgent says that nothing is wrong but the agent: the key has a
	// grant for others.
	OtherAgent bool
}

// Check reports whether the outcome of a run of an agent counts. Body is the
// whole body of the message. Gone says that its object is gone.
func (g *Grants) Check(ctx context.Context, m Stored, body []byte, gone bool, agent subjects.Agent) (Refusal, error) {
	if !g.Required() {
		return Refusal{}, nil
	}
	text := m.Header.Get(subjects.HeaderSignature)
	if text == "" {
		return Refusal{Why: "it is not signed"}, nil
	}
	sig, ok := parseSignature(text)
	if !ok {
		return Refusal{Why: "its signature is malformed"}, nil
	}
	if !sig.holds(m, body, gone) {
		return Refusal{Key: sig.key, Why: "the signature is not of this subject and body"}, nil
	}
	known, err := g.of(ctx, sig.key)
	switch {
	case err != nil:
		return Refusal{}, err
	case known.why != "":
		return Refusal{Key: sig.key, Why: known.why}, nil
	case known.EndedAt(m.Time):
		return Refusal{Key: sig.key, Why: "the grant of the key ended at " + known.Ends.UTC().Format(time.RFC3339)}, nil
	case !known.Covers(agent):
		return Refusal{Key: sig.key, Why: "the key has no grant for the agent", OtherAgent: true}, nil
	}
	return Refusal{}, nil
}

// of returns the grant of a key, as it was at most grantKept ago.
func (g *Grants) of(ctx context.Context, key string) (knownGrant, error) {
	g.mu.Lock()
	known := g.known[key]
	g.mu.Unlock()
	if !known.read.IsZero() && time.Since(known.read) < grantKept {
		return known, nil
	}
	known = knownGrant{read: time.Now()}
	text, ok, err := g.read(ctx, key)
	if err != nil {
		return known, fmt.Errorf("grant of %s: %w", key, err)
	}
	known.Grant, known.why = g.judge(key, text, ok)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxKnown {
		clear(g.known)
	}
	g.known[key] = known
	return known, nil
}

// judge reads the grant of a key. Why says why it does not count, "" if it
// does.
func (g *Grants) judge(key, text string, ok bool) (of grant.Grant, why string) {
	if !ok {
		return of, "the key has no grant"
	}
	of, err := grant.Parse(g.conn.Space(), text)
	switch {
	case err != nil:
		return of, err.Error()
	case of.Key != key:
		return of, "the grant is of another key"
	case !g.signers[of.Signer]:
		return of, "the grant is signed by " + of.Signer + ", which is none of the signers"
	}
	return of, ""
}

// read asks the leader of the bucket for the grant of a key.
func (g *Grants) read(ctx context.Context, key string) (text string, ok bool, err error) {
	c, b := g.conn, agentsBucket(g.conn)
	m, ok, err := lastBy(ctx, c, apiOfTree(c, subjects.Tree{}), b.streamName(), b.subject(grantPrefix+key))
	if err != nil || !ok || !isGrant(m) {
		return "", false, err
	}
	return string(m.Body), true, nil
}

// isGrant reports whether a message of the bucket is a value that its writer
// may write: no marker, and no answer of the server to a read. So a worker with
// an old grant cannot bring it back.
func isGrant(m Stored) bool { return m.Header.Get("KV-Operation") == "" && !m.IsAnswer() }

// LogRefused logs that an outcome of a run does not count, once for each
// message.
func (g *Grants) LogRefused(ctx context.Context, r subjects.Run, m Stored, why Refusal) {
	place := fmt.Sprintf("%d %s", m.Seq, m.Subject)
	g.mu.Lock()
	done := g.logged[place]
	if len(g.logged) >= maxKnown {
		clear(g.logged)
	}
	g.logged[place] = true
	g.mu.Unlock()
	if !done {
		g.conn.log.WarnContext(ctx, "outcome refused", slog.String("tree", r.Tree.String()),
			slog.String("path", r.Path.String()), slog.String("agent", r.Agent.String()), slog.String("key", why.Key),
			slog.String(keySubject, m.Subject), slog.String(keyError, why.Why))
	}
}

// StoreGrant stores a grant, in place of another one of its key.
func StoreGrant(ctx context.Context, c *Conn, token string) (grant.Grant, error) {
	g, err := grant.Parse(c.Space(), token)
	if err != nil {
		return g, err
	}
	d, err := c.Directory(ctx)
	if err != nil {
		return g, err
	}
	_, err = d.Put(ctx, grantPrefix+g.Key, []byte(strings.TrimSpace(token)))
	return g, err
}

// ReadGrants reads the grants of all keys, or of one. Those that are malformed
// are left out.
func ReadGrants(ctx context.Context, c *Conn, key string) (all []grant.Grant, _ error) {
	d, err := c.Directory(ctx)
	if err != nil {
		return nil, err
	}
	ms, err := d.list(ctx, grantPrefix+cmp.Or(key, "*"))
	for _, m := range ms {
		if g, err := grant.Parse(c.Space(), string(m.Body)); err == nil && isGrant(m) {
			all = append(all, g)
		}
	}
	return all, err
}
