package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateAge is the time for which the certificates are valid.
const certificateAge = 10 * 365 * 24 * time.Hour

// makeCertificates makes an authority, and a certificate of the server for its
// hosts.
func makeCertificates(dir string, hosts []string) error {
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority, err := certificate("axe authority")
	if err != nil {
		return err
	}
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, &ca.PublicKey, ca)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server, err := certificate(hosts[0])
	if err != nil {
		return err
	}
	server.KeyUsage = x509.KeyUsageDigitalSignature
	// The servers of a cluster are clients of each other.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	// Hosts may have a name that no certificate can have. Nothing is
	// written before that is known.
	certified, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, ca)
	if err != nil {
		return err
	}
	if err := writePair(filepath.Join(dir, CAFile), filepath.Join(dir, caKey), signed, ca); err != nil {
		return err
	}
	return writePair(filepath.Join(dir, serverCert), filepath.Join(dir, serverKey), certified, key)
}

// certificate returns a certificate for a name, which is not signed yet. It is
// valid from an hour before now: the clock of a client may be slow.
func certificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now().Add(-time.Hour)
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.Add(certificateAge),
	}, nil
}

// writePair writes a certificate and its key.
func writePair(certFile, keyFile string, cert []byte, key *ecdsa.PrivateKey) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})); err != nil {
		return err
	}
	return writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// hostsOf returns the names and addresses in the first certificate of a PEM
// file, which may have a key before it.
func hostsOf(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(content)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, errors.New("it has no certificate in PEM form")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	hosts := cert.DNSNames
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts, nil
}
