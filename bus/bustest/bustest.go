// Package bustest is for tests of what happens between a client and its server:
// it can be overheard, held up and cut off, at the word.
//
//	url := bustest.Between(t, server.URL(), func(words []byte) error {
//		if bytes.Contains(words, []byte("CONSUMER.MSG.NEXT")) {
//			return errors.New("cut off as it asks for messages")
//		}
//		return nil
//	})
package bustest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Between lies between clients and a server, both by "nats://" and an address,
// until the test ends. What a client says is told to said, one piece at a time,
// and passed on when that returns; an error breaks the connection instead. Said
// is called from a goroutine for each connection.
func Between(t *testing.T, server string, said func(words []byte) error) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = l.Close() })
	serving.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			serving.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
			serving.Go(func() { pass(near, far, said); _, _ = near.Close(), far.Close() })
		}
	})
	return "nats://" + l.Addr().String()
}

func pass(near io.Reader, far io.Writer, said func([]byte) error) {
	for buf := make([]byte, 32<<10); ; {
		n, err := near.Read(buf)
		if err != nil || said(buf[:n]) != nil {
			return
		}
		if _, err := far.Write(buf[:n]); err != nil {
			return
		}
	}
}
