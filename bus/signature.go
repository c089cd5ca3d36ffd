package bus

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/subjects"
)

// signer signs messages with the key of a connection's user. The seed of a
// context stays in its file.
type signer struct {
	public func() (string, error)
	raw    func([]byte) ([]byte, error)
}

// signerOf returns the signer of a connection, nil if its user has no nkey.
func signerOf(cfg *Config, nc *nats.Conn) *signer {
	key := cfg.SignKey
	if file := cmp.Or(cfg.Dial.Creds, cfg.Dial.NKey); key == nil && file != "" {
		// The library reads the file for each signature, which is slow.
		if text, err := os.ReadFile(file); err == nil {
			key, _ = nkeys.ParseDecoratedNKey(text)
		}
	}
	switch {
	case key != nil:
		public, err := key.PublicKey()
		return &signer{func() (string, error) { return public, err }, signFunc(key)}
	case nc.Opts.SignatureCB == nil:
		return nil
	case nc.Opts.UserJWT != nil:
		return &signer{func() (string, error) {
			text, err := nc.Opts.UserJWT()
			return claimsOf(text).Key, err
		}, nc.Opts.SignatureCB}
	}
	return &signer{func() (string, error) { return nc.Opts.Nkey, nil }, nc.Opts.SignatureCB}
}

// signFunc returns a function that signs with a key. KeyPair.Sign makes the
// private key from its seed each time, which takes as long as to sign.
func signFunc(key nkeys.KeyPair) func([]byte) ([]byte, error) {
	seed, err := key.Seed()
	if err != nil {
		return key.Sign // which says why it cannot
	}
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return key.Sign
	}
	private := ed25519.NewKeyFromSeed(raw)
	return func(text []byte) ([]byte, error) { return ed25519.Sign(private, text), nil }
}

// signature is the header of a signed message: the writer's public key, its
// signature, and the digest of the body if the message refers to an object. So
// the signature can be checked when the object is gone.
type signature struct {
	key    string
	sig    []byte
	digest string
}

// parseSignature reads a header; ok is false for a malformed one.
func parseSignature(text string) (s signature, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 && len(fields) != 3 {
		return s, false
	}
	s.key = fields[0]
	if len(fields) == 3 {
		s.digest = fields[2]
	}
	var err error
	s.sig, err = base64.StdEncoding.DecodeString(fields[1])
	return s, err == nil && nkeys.IsValidPublicUserKey(s.key)
}

// holds reports whether the key has signed the body of a message, or only its
// digest if the body is gone.
func (s signature) holds(m Stored, body []byte, gone bool) bool {
	digest := s.digest
	if !gone {
		digest = digestOf(body)
	}
	key, err := nkeys.FromPublicKey(s.key)
	return err == nil && key.Verify(signedText(m.Subject, digest), s.sig) == nil
}

// signedText is the text that a signature is of. Everything that the fold takes
// from an outcome is its subject and its body.
func signedText(subject, digest string) []byte {
	return []byte("axe outcome\n" + subject + "\n" + digest)
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// sign adds a signature to a message with a body. The signature becomes the
// message's ID too, in place of one that another writer can guess: with that ID
// a forged message would keep the true one out.
func (s *signer) sign(msg *nats.Msg, key string, body []byte) error {
	digest := digestOf(body)
	sig, err := s.raw(signedText(msg.Subject, digest))
	if err != nil {
		return fmt.Errorf("sign %s: %w", msg.Subject, err)
	}
	text := base64.StdEncoding.EncodeToString(sig)
	if msg.Header.Get(jetstream.MsgIDHeader) != "" {
		msg.Header.Set(jetstream.MsgIDHeader, text)
	}
	value := key + " " + text
	if msg.Header.Get(headerObject) != "" {
		value += " " + digest
	}
	msg.Header.Set(subjects.HeaderSignature, value)
	return nil
}
