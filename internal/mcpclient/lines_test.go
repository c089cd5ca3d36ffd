package mcpclient

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"pgregory.net/rapid"
)

// TestLineReader: a line within the limit is returned whole. Of a longer line
// the two ends are returned, with an error. The next line is whole again.
func TestLineReader(t *testing.T) {
	const limit = 3 * edge
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
			return "<" + strings.Repeat("x", rapid.IntRange(0, 100*edge).Draw(t, "length")) + ">"
		})).Draw(t, "lines")
		var in io.Reader = strings.NewReader(strings.Join(lines, "\n"))
		if rapid.Bool().Draw(t, "half reads") {
			in = iotest.HalfReader(in)
		}
		r := newLineReader(in, limit)
		for i, want := range lines {
			got, err := r.next()
			switch {
			case len(want) < limit:
				if err != nil || string(got) != want {
					t.Fatalf("line %d: %d bytes, error %v, want %d", i, len(got), err, len(want))
				}
			case len(want) > limit+1:
				ends := strings.HasPrefix(string(got), "<x") && strings.HasSuffix(string(got), "x>")
				if !errors.Is(err, errTooLarge) || !ends || len(got) > 2*edge {
					t.Fatalf("line %d of %d bytes: %d bytes, error %v; want its ends in at most %d bytes, and %v",
						i, len(want), len(got), err, 2*edge, errTooLarge)
				}
			}
		}
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("error %v at the end, want %v", err, io.EOF)
		}
	})
}

// TestAnswerID: answerID finds the id at the beginning and at the end of an
// answer, though its middle may be missing. It finds none in another message.
func TestAnswerID(t *testing.T) {
	for l, want := range map[string]float64{
		`{"jsonrpc":"2.0","id":12,"result":{`:                12,
		`{"jsonrpc": "2.0", "id": 12, "error": {`:            12,
		`{"result":{"id":4},"jsonrpc":"2.0","id":12}`:        12,
		`{"jsonrpc":"2.0","result":{ … },"id":12}`:           12,
		`{"jsonrpc":"2.0","id":12,"method":"sampling/`:       0,
		`{"method":"x","params":{},"jsonrpc":"2.0","id":12}`: 0,
		`{"result":{"id":4}}`:                                0,
		`plain text`:                                         0,
	} {
		id, ok := answerID([]byte(l))
		wanted, err := jsonrpc.MakeID(want)
		if err != nil || ok != (want != 0) || ok && id != wanted {
			t.Errorf("%s: id %v, %v, want %v", l, id.Raw(), ok, want)
		}
	}
}

// TestEventTap: the tap finds the answer in a stream of events, in pieces of
// any size. It passes the bytes on unchanged.
func TestEventTap(t *testing.T) {
	id, err := jsonrpc.MakeID(3.0)
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`
	for name, stream := range map[string]string{
		"plain":    "event: message\ndata: " + answer + "\n\n",
		"returns":  ": hello\r\nid: 7\r\ndata:" + answer + "\r\n\r\n",
		"two data": "data: {\"jsonrpc\":\"2.0\",\"id\":3,\ndata: \"result\":{}}\n\n",
		"no end":   "data: " + answer,
		"behind":   "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\ndata: \n\ndata: " + answer + "\n\n",
	} {
		for _, in := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			x := &exchange{id: id}
			out, err := io.ReadAll(&eventTap{body: io.NopCloser(in), exchange: x, limit: maxMessage})
			if err != nil || string(out) != stream || x.answer == nil {
				t.Errorf("%s: error %v, answer %v, read %q; want an answer, and %q", name, err, x.answer, out, stream)
			}
		}
	}
}
