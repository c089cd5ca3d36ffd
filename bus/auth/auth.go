// Package auth makes the keys, certificates and users of a new NATS system for
// axe, with the configuration of its server. It writes files and connects to
// nothing.
//
// The system has an operator and two accounts. The operator signs the accounts,
// and they sign the users. Each user has a role (internal/roles) and a creds file. The server's
// configuration has no secret: it knows the public keys alone.
//
// Submitters have an account of their own. A server answers to the reply subject
// of a message with its own rights, whatever the permissions of the sender are.
// In the account of the streams, a submitter could make it write an answer to a
// subject of any stream. From another account only the imported subjects can be
// reached, and answers go back to the sender alone.
package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/internal/roles"
)

// Config says which system to make.
type Config struct {
	// Dir gets all files. It must be empty or missing.
	Dir string
	// Account is the name of the account.
	Account string
	// Users are the users of the account. Their names become the names of
	// files.
	Users []roles.User
	// Listen is the address of the server for clients.
	Listen string
	// Hosts are the names and addresses in the server's certificate.
	Hosts []string
	// CertFile and KeyFile are a certificate of one's own and its key. With
	// them no authority is made.
	CertFile, KeyFile string
	// StoreDir is the directory of the server's streams, and MaxStore the
	// most bytes in it.
	StoreDir string
	MaxStore int64
	// MaxPayload is the server's largest message in bytes.
	MaxPayload int32
}

// The files of a system, below its directory.
const (
	ConfFile = "nats-server.conf"
	CAFile   = "tls/ca.pem"

	serverCert = "tls/server.pem"
	serverKey  = "tls/server.key"
	caKey      = "tls/ca.key"
	keysDir    = "keys"
)

// CredsFile is the file with the credentials of a user, below the directory.
func CredsFile(user string) string { return user + ".creds" }

// ErrNotEmpty is wrapped by the error for a directory that has files.
var ErrNotEmpty = errors.New("the directory is not empty, and keys are never replaced")

// Make writes all files of a new system. Every file is readable for its owner
// alone.
func Make(c Config) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	c.Dir = dir
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	if c.StoreDir, err = filepath.Abs(c.StoreDir); err != nil {
		return err
	}
	s, err := newSystem(c)
	if err != nil {
		return err
	}
	if c.CertFile == "" {
		if err := makeCertificates(dir, c.Hosts); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
		s.CertFile, s.KeyFile = filepath.Join(dir, serverCert), filepath.Join(dir, serverKey)
	} else if err := s.ownCertificate(); err != nil {
		return err
	}
	return s.write()
}

// ownCertificate checks the files of a certificate.
func (s *system) ownCertificate() (err error) {
	for _, file := range []*string{&s.CertFile, &s.KeyFile} {
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
		if _, err := os.Stat(*file); err != nil {
			return err
		}
	}
	return nil
}

// system holds the keys and the claims of a new system.
type system struct {
	Config
	operator    nkeys.KeyPair
	operatorJWT string
	// main has the streams, guests the submitters, and sys belongs to the
	// server itself.
	main, guests, sys account
}

// account is an account with its claims.
type account struct {
	key    nkeys.KeyPair
	Name   string
	Public string
	JWT    string
}

func newAccount(name string) (a account, err error) {
	a.Name = name
	if a.key, err = nkeys.CreateAccount(); err != nil {
		return a, err
	}
	a.Public, err = a.key.PublicKey()
	return a, err
}

func newSystem(c Config) (_ *system, err error) {
	s := &system{Config: c}
	if s.operator, err = nkeys.CreateOperator(); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		account *account
		name    string
	}{{&s.main, c.Account}, {&s.guests, c.Account + "_SUBMITTERS"}, {&s.sys, "SYS"}} {
		if *of.account, err = newAccount(of.name); err != nil {
			return nil, err
		}
	}
	return s, s.sign()
}

// sign makes the claims of the operator and of the accounts.
func (s *system) sign() error {
	public, err := s.operator.PublicKey()
	if err != nil {
		return err
	}
	operator := jwt.NewOperatorClaims(public)
	operator.Name, operator.SystemAccount = s.Account, s.sys.Public
	if s.operatorJWT, err = operator.Encode(s.operator); err != nil {
		return err
	}
	main, guests, sys := s.main.claims(), s.guests.claims(), s.sys.claims()
	main.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: s.MaxStore, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	for _, subject := range s.offered() {
		main.Exports.Add(&jwt.Export{
			// A read has many answers.
			Name: subject, Subject: jwt.Subject(subject), Type: jwt.Service, ResponseType: jwt.ResponseTypeStream,
			TokenReq: true,
		})
		imported, err := s.permit(subject)
		if err != nil {
			return err
		}
		guests.Imports.Add(imported)
	}
	for _, of := range []struct {
		account *account
		claims  *jwt.AccountClaims
	}{{&s.main, main}, {&s.guests, guests}, {&s.sys, sys}} {
		if of.account.JWT, err = of.claims.Encode(s.operator); err != nil {
			return err
		}
	}
	return nil
}

func (a account) claims() *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(a.Public)
	claims.Name = a.Name
	return claims
}

// offered are the subjects that submitters publish to.
func (s *system) offered() (all []string) {
	for _, u := range s.Users {
		if u.Role == roles.Submitter {
			all = append(all, u.Publish...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// permit returns the import of a subject into the account of the submitters. No
// other account may import it.
func (s *system) permit(subject string) (*jwt.Import, error) {
	claims := jwt.NewActivationClaims(s.guests.Public)
	claims.Name, claims.ImportSubject, claims.ImportType = subject, jwt.Subject(subject), jwt.Service
	token, err := claims.Encode(s.main.key)
	if err != nil {
		return nil, err
	}
	return &jwt.Import{
		Name: subject, Subject: jwt.Subject(subject), Account: s.main.Public, Token: token, Type: jwt.Service,
	}, nil
}

// creds makes a user, and returns the content of its creds file.
func (s *system) creds(u roles.User) ([]byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = u.Name
	claims.Tags.Add("role:" + string(u.Role))
	claims.Pub.Allow.Add(u.Publish...)
	claims.Pub.Deny.Add(u.DenyPublish...)
	claims.Sub.Allow.Add(u.Subscribe...)
	if u.Responds {
		claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: roles.ResponseTime}
	}
	signer := s.main
	if u.Role == roles.Submitter {
		signer = s.guests
	}
	text, err := claims.Encode(signer.key)
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(text, seed)
}

// write writes the keys, the users and the configuration.
func (s *system) write() error {
	for name, key := range map[string]nkeys.KeyPair{
		"operator": s.operator, "account": s.main.key, "submitters": s.guests.key, "system": s.sys.key,
	} {
		seed, err := key.Seed()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(s.Dir, keysDir, name+".nk"), append(seed, '\n')); err != nil {
			return err
		}
	}
	for _, u := range s.Users {
		creds, err := s.creds(u)
		if err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
		if err := writeFile(filepath.Join(s.Dir, CredsFile(u.Name)), creds); err != nil {
			return err
		}
	}
	conf, err := s.conf()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.Dir, ConfFile), conf)
}

// writeFile writes a new file that only its owner may read.
func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// URL is the address for clients of this machine, or of others if the server
// has a name in its certificate.
func (c Config) URL() (string, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("listen address must be HOST:PORT, got %q: %w", c.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = c.Hosts[0]
	}
	return "tls://" + net.JoinHostPort(host, port), nil
}
