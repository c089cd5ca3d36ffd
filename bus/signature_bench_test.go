package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/subjects"
)

// BenchmarkSignature signs an outcome and checks it. The baseline is the
// library's own signature of the same text.
func BenchmarkSignature(b *testing.B) {
	key, err := nkeys.CreateUser()
	if err != nil {
		b.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		b.Fatal(err)
	}
	msg := nats.NewMsg("axe.result.leaf.1")
	body := []byte(`{"status":"completed","text":"hello"}`)
	b.Run("library", func(b *testing.B) {
		text := signedText(msg.Subject, digestOf(body))
		for b.Loop() {
			if _, err := key.Sign(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	s := &signer{raw: signFunc(key)}
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			if err := s.sign(msg, public, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		m := Stored{Subject: msg.Subject}
		for b.Loop() {
			sig, ok := parseSignature(msg.Header.Get(subjects.HeaderSignature))
			if !ok || !sig.holds(m, body, false) {
				b.Fatal("the signature does not hold")
			}
		}
	})
}
