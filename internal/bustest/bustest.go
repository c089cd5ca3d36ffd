// Package bustest has a server with options of its own, for tests, a proxy
// between a client and its server, and the backup of streams. With the proxy a
// test sees the bytes that the client sends, and can delay them or break the
// connection at any of them.
//
//	url := bustest.Proxy(t, server.URL(), func(sent []byte) error {
//		if bytes.Contains(sent, []byte("CONSUMER.MSG.NEXT")) {
//			return errors.New("broken at a pull request")
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

// Proxy stands between clients and a server until the test ends. Both URLs are
// "nats://" and an address. It calls sent with each piece that a client sends,
// and passes the piece on when sent returns. An error breaks the connection
// instead. Each connection has a goroutine that calls sent.
func Proxy(t *testing.T, server string, sent func(piece []byte) error) (url string) {
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
			serving.Go(func() { pass(near, far, sent); _, _ = near.Close(), far.Close() })
		}
	})
	return "nats://" + l.Addr().String()
}

func pass(near io.Reader, far io.Writer, sent func([]byte) error) {
	for buf := make([]byte, 32<<10); ; {
		n, err := near.Read(buf)
		if err != nil || sent(buf[:n]) != nil {
			return
		}
		if _, err := far.Write(buf[:n]); err != nil {
			return
		}
	}
}
