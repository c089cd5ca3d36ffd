package agentd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Answers are the newest answers of models to the requests of this process. The
// messages that a stream has lost since its backup may hold answers: the
// workers that asked for them still know them, so that nobody pays for them
// again.
type Answers struct {
	recent[answerKey, *provider.Response]
}

const (
	// answersLimit bounds the memory for answers, in bytes.
	answersLimit = 16 << 20
	// answersPeriod is the time for which an answer is kept at least.
	answersPeriod = 30 * time.Minute
	// answerWeight is the memory of an answer in bytes beside its texts.
	answerWeight = 512
)

// NewAnswers makes an empty memory of answers.
func NewAnswers() *Answers {
	return &Answers{newRecent[answerKey, *provider.Response](answersLimit, answersPeriod)}
}

// remember keeps an answer as the model gave it. The caller may change resp
// afterwards: a run's commands in the text become calls.
func (a *Answers) remember(key answerKey, resp *provider.Response) {
	given := *resp
	given.ToolCalls = slices.Clone(resp.ToolCalls)
	size := answerWeight + len(resp.Content)
	for _, c := range resp.ToolCalls {
		size += answerWeight + 2*len(c.Raw)
	}
	a.put(key, &given, size)
}

// Recall returns an answer as JSON, and forgets it; nil if it is not known. The
// key is that of another worker.
func (a *Answers) Recall(text string) []byte {
	var key answerKey
	if _, err := fmt.Sscanf(text, keyFormat, &key.turn, &key.request); err != nil {
		return nil
	}
	resp, ok := a.take(key)
	if !ok {
		return nil
	}
	b, err := json.Marshal(resp)
	if err != nil {
		return nil
	}
	return b
}

// answerKey identifies the request for a turn of a run, by two hashes. That of
// the request tells apart the requests for one turn, which differ if the run
// had other messages before it. A key has no pointers: a worker holds
// thousands.
type answerKey struct {
	turn, request uint64
}

// keyFormat is the form in which a worker names a key to another one.
const keyFormat = "%x %x"

// String is the key as another worker reads it.
func (k answerKey) String() string { return fmt.Sprintf(keyFormat, k.turn, k.request) }

// newAnswerKey makes the key of the request for a turn.
func newAnswerKey(r subjects.Run, turn int, req *provider.Request) answerKey {
	var h keyHash
	h.Reset()
	h.add(r.Tree.String(), r.Path.String())
	h.addNumber(turn)
	k := answerKey{turn: h.Sum64()}
	h.Reset()
	h.add(req.Model, req.System)
	for _, m := range req.Messages {
		h.add(string(m.Role), m.Content)
		for _, c := range m.ToolCalls {
			h.add(c.ID, c.Name)
			h.addNumber(len(c.Raw))
			_, _ = h.Write(c.Raw)
		}
		for _, res := range m.ToolResults {
			h.add(res.CallID, res.Content)
		}
	}
	k.request = h.Sum64()
	return k
}

// keyHash is the hash of a key. A text goes into it without a copy: a request
// holds the whole conversation.
type keyHash struct{ xxhash.Digest }

// add adds texts, each after its length.
func (h *keyHash) add(texts ...string) {
	for _, s := range texts {
		h.addNumber(len(s))
		_, _ = h.WriteString(s)
	}
}

func (h *keyHash) addNumber(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}

// send sends the request for a turn. On a stream that was restored from a
// backup it first asks this worker and the others for the answer.
func send(ctx context.Context, x *execution, p provider.Provider, req *provider.Request) (*provider.Response, error) {
	w := x.w
	key := newAnswerKey(x.run, x.nextTurn(), req)
	if w.conn.Health.Restored(x.run.Partition(), answersPeriod) {
		if resp := recall(ctx, w, key); resp != nil {
			w.log.DebugContext(ctx, "answer known from before the restore", runAttr(x.run),
				slog.Int(keyTurn, x.nextTurn()))
			return resp, nil
		}
	}
	resp, err := p.Send(ctx, req)
	if err == nil {
		w.cfg.Answers.remember(key, resp)
	}
	return resp, err
}

// recall returns an answer that this worker or another one knows; nil if none
// does.
func recall(ctx context.Context, w *Worker, key answerKey) *provider.Response {
	if resp, ok := w.cfg.Answers.take(key); ok {
		return resp
	}
	var resp provider.Response
	b := w.registry.Recall(ctx, w.cfg.Name, key.String())
	if b == nil || json.Unmarshal(b, &resp) != nil {
		return nil
	}
	return &resp
}
