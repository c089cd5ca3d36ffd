package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

// newAuthority makes an authority, and the file of its certificate.
func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{t: t}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = a.sign(tmpl, tmpl, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = fileT(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// sign makes a key and its certificate, in DER. The key by of the parent signs
// the certificate. If by is nil, the new key signs it.
func (a authority) sign(tmpl, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

// leaf makes a certificate for 127.0.0.1, of a server or a client. It returns
// the files of the certificate and of its key.
func (a authority) leaf(name string) (cert, key string) {
	a.t.Helper()
	k, der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return fileT(a.t, name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		fileT(a.t, name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
}

// TestDialTLS: client and server accept only certificates of the authority that
// they trust. A dial of a tls URL fails at a server without TLS.
func TestDialTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	cert, key := ca.leaf("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	addr := natsT(t, &server.Options{TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, TLSTimeout: 5})
	mutual := natsT(t, &server.Options{TLSVerify: true, TLSTimeout: 5, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}})
	plain := natsT(t, &server.Options{})
	cert, key = ca.leaf("client")

	connectT(t, Dial{URL: "tls://" + addr, TLSCA: ca.file})
	connectT(t, Dial{URL: addr, TLSCA: ca.file})
	connectT(t, Dial{URL: mutual, TLSCA: ca.file, TLSCert: cert, TLSKey: key})

	if err := refused(t, Dial{URL: "tls://" + addr}); !untrusted(err) {
		t.Errorf("no authority: got %v, want an unknown authority", err)
	}
	if err := refused(t, Dial{URL: "tls://" + addr, TLSCA: stranger.file}); !untrusted(err) {
		t.Errorf("another authority: got %v, want an unknown authority", err)
	}
	if err := refused(t, Dial{URL: "tls://" + plain, TLSCA: ca.file}); !errors.Is(err, nats.ErrSecureConnWanted) {
		t.Errorf("a server without TLS: got %v, want %v", err, nats.ErrSecureConnWanted)
	}
	if err := refused(t, Dial{URL: mutual, TLSCA: ca.file}); !alerted(err, "certificate required") {
		t.Errorf("no certificate: got %v, want that the server requires one", err)
	}
	cert, key = stranger.leaf("client")
	err = refused(t, Dial{URL: mutual, TLSCA: ca.file, TLSCert: cert, TLSKey: key})
	if !alerted(err, "unknown certificate authority") {
		t.Errorf("a stranger's certificate: got %v, want that its authority is unknown to the server", err)
	}
}

// alerted reports whether a server ended the TLS connection with an alert. A
// client whose write meets the end of the connection does not read the alert.
func alerted(err error, alert string) bool {
	return errors.Is(err, nats.ErrTLS) || strings.Contains(err.Error(), "remote error: tls: "+alert)
}

// untrusted reports whether a certificate is of an unknown authority.
func untrusted(err error) bool {
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}

// TestDialServerKilledInTLS: a server that ends while a client connects has
// closed the connection in the TLS handshake. The client connects to its
// successor. It gives a server up that closes each connection.
func TestDialServerKilledInTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.leaf("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	addr := natsT(t, &server.Options{TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, TLSTimeout: 5})
	connectT(t, Dial{URL: cutT(t, addr, closedTries-1), TLSCA: ca.file})
	if err := refused(t, Dial{URL: cutT(t, addr, closedTries), TLSCA: ca.file}); !errors.Is(err, nats.ErrTLS) {
		t.Errorf("a server that closes each connection: got %v, want %v", err, nats.ErrTLS)
	}
}

// cutT returns the address of a proxy of a server. The proxy closes the first
// connections when the client has sent something, and passes all later ones on.
func cutT(t *testing.T, addr string, cuts int) string {
	t.Helper()
	ctx := t.Context()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, server)
			}()
			go func() {
				defer server.Close()
				if n < cuts {
					_, _ = client.Read(make([]byte, 1))
					return
				}
				_, _ = io.Copy(server, client)
			}()
		}
	}()
	return l.Addr().String()
}
