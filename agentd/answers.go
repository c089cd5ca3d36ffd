package agentd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"time"

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
	if _, err := fmt.Sscanf(text, keyFormat, &key.turn, &key.length, &key.sum); err != nil {
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

// answerKey identifies the request for a turn of a run. The checksums tell apart
// the requests for one turn, which differ if the run had other messages before
// it. A key has no pointers: a worker holds thousands.
type answerKey struct {
	// turn is a hash of the run and the number of its turn.
	turn uint64
	// length is the length of all texts of the request in bytes, and sum
	// their checksum.
	length uint64
	sum    uint32
}

// keyFormat is the form in which a worker names a key to another one.
const keyFormat = "%x %x %x"

// String is the key as another worker reads it.
func (k answerKey) String() string { return fmt.Sprintf(keyFormat, k.turn, k.length, k.sum) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newAnswerKey makes the key of the request for a turn.
func newAnswerKey(r subjects.Run, turn int, req *provider.Request) answerKey {
	h := fnv.New64a()
	buf := make([]byte, 0, 256)
	buf = append(append(append(append(buf, r.Tree.String()...), '.'), r.Path.String()...), '.')
	_, _ = h.Write(strconv.AppendInt(buf, int64(turn), 10))
	k := answerKey{turn: h.Sum64()}
	add := func(texts ...string) {
		for _, s := range texts {
			buf = append(binary.AppendUvarint(buf[:0], uint64(len(s))), s...)
			k.sum = crc32.Update(k.sum, castagnoli, buf)
			k.length += uint64(len(s))
		}
	}
	add(req.Model, req.System)
	for _, m := range req.Messages {
		add(string(m.Role), m.Content)
		for _, c := range m.ToolCalls {
			add(c.ID, c.Name, string(c.Raw))
		}
		for _, res := range m.ToolResults {
			add(res.CallID, res.Content)
		}
	}
	return k
}

// send sends the request for a turn. On a stream that was restored from a
// backup it first asks this worker and the others for the answer.
func send(ctx context.Context, x *execution, p provider.Provider, req *provider.Request) (*provider.Response, error) {
	w := x.w
	key := newAnswerKey(x.run, x.nextTurn(), req)
	if w.conn.Health.Restored(x.run.Partition(), answersPeriod) {
		if resp := recall(ctx, w, key); resp != nil {
			w.log.DebugContext(ctx, "answer known from before the restore", slog.String(keyRun, x.run.String()),
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
