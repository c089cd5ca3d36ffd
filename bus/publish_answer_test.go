package bus

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestReadAck: each form of a server's answer to a published message is read.
func TestReadAck(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]uint64{
		`{"stream":"AXE_RUNS", "seq":12}`:                          12,
		`{"stream":"AXE_RUNS", "domain":"hub", "seq":7}`:           7,
		`{"stream":"AXE_RUNS", "seq":12,"duplicate": true}`:        12,
		`{"type":"x","seq":3,"stream":"AXE_RUNS"}`:                 3,
		`{"stream":"AXE_RUNS", "seq":18446744073709551615}`:        18446744073709551615,
		`{"stream":"A", "seq":5,"batch":"b1","count":2}`:           5,
		"{\n \"stream\": \"AXE_RUNS\", \"seq\": 4, \"val\":\"1\"}": 4,
	} {
		ack, err := readAck([]byte(answer))
		if ack.Sequence != want || ack.Duplicate != strings.Contains(answer, "duplicate") || err != nil {
			t.Errorf("%s: %+v, error %v, want sequence %d", answer, ack, err, want)
		}
	}
	for _, answer := range []string{
		``, `{}`, `{"seq":1}`, `{"seq":1,"stream":""}`, `{"stream":"A", "seq":-1}`, `{"stream":"A", "seq":}`,
	} {
		if ack, err := readAck([]byte(answer)); !errors.Is(err, jetstream.ErrInvalidJSAck) {
			t.Errorf("%s: %+v, error %v, want an invalid answer", answer, ack, err)
		}
	}
	refusal := `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"A","seq":0}`
	_, err := readAck([]byte(refusal))
	if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != 10071 {
		t.Errorf("error %v, want that of the server", err)
	}
}
