package agentd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Answers are the newest answers of models to the requests of this process. The
// messages that a stream has lost since its backup may hold answers: the
// workers that asked for them still know them, so that nobody pays for them
// again.
type Answers struct {
	recent[string, *provider.Response]
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
	return &Answers{newRecent[string, *provider.Response](answersLimit, answersPeriod)}
}

// remember keeps an answer as the model gave it. The caller may change resp
// afterwards: a run's commands in the text become calls.
func (a *Answers) remember(key string, resp *provider.Response) {
	given := *resp
	given.ToolCalls = slices.Clone(resp.ToolCalls)
	size := answerWeight + len(key) + len(resp.Content)
	for _, c := range resp.ToolCalls {
		size += answerWeight + 2*len(c.Raw)
	}
	a.put(key, &given, size)
}

// Recall returns an answer as JSON, and forgets it; nil if it is not known.
func (a *Answers) Recall(key string) []byte {
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// answerKey identifies the request for a turn of a run. A checksum tells apart
// the requests for one turn, which differ if the run had other messages before
// it.
func answerKey(r subjects.Run, turn int, req *provider.Request) string {
	var sum uint32
	var length int
	var buf []byte
	add := func(texts ...string) {
		for _, s := range texts {
			buf = binary.AppendUvarint(buf[:0], uint64(len(s)))
			buf = append(buf, s...)
			sum = crc32.Update(sum, castagnoli, buf)
			length += len(s)
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
	return fmt.Sprintf("%s %d %d %08x", r, turn, length, sum)
}

// send sends the request for a turn. On a stream that was restored from a
// backup it first asks this worker and the others for the answer.
func send(ctx context.Context, x *execution, p provider.Provider, req *provider.Request) (*provider.Response, error) {
	w := x.w
	key := answerKey(x.run, x.nextTurn(), req)
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
func recall(ctx context.Context, w *Worker, key string) *provider.Response {
	if resp, ok := w.cfg.Answers.take(key); ok {
		return resp
	}
	var resp provider.Response
	b := w.registry.Recall(ctx, w.cfg.Name, key)
	if b == nil || json.Unmarshal(b, &resp) != nil {
		return nil
	}
	return &resp
}
