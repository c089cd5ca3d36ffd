// Package auth makes the keys, certificates and users of a new NATS system for
// axe, with the configuration of its server. It writes files and connects to
// nothing.
//
// The system has an operator and two accounts. The operator signs the accounts,
// and they sign the users. Each user has a role (internal/roles) and a creds
// file. The server's configuration has no secret: it knows the public keys
// alone. Each worker has a grant: with that its outcomes count where they have
// to be signed (bus.Grants).
//
// Submitters have an account of their own. A server answers to the reply
// subject of a message with its own rights, whatever the permissions of the
// sender are. In the account of the streams, a submitter could make it write an
// answer to a subject of any stream. From another account only the imported
// subjects can be reached, and answers go back to the sender alone.
package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
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
	// Space has the prefix of the bus, for the grants of workers.
	Space subjects.Space
	// Listen is the address of the server for clients.
	Listen string
	// Hosts are the names and addresses in the server's certificate. Without
	// any they are those of CertFile.
	Hosts []string
	// CertFile and KeyFile are a certificate of one's own and its key. With
	// them no authority is made.
	CertFile, KeyFile string
	// StoreDir is the directory of the server's streams.
	StoreDir string
	// MaxStore is the most bytes of the account's streams. ServerStore is the
	// most bytes of all tenants together, at least MaxStore; 0 is MaxStore.
	MaxStore, ServerStore int64
	// MaxPayload is the server's largest message in bytes.
	MaxPayload int32
	// Domain is the JetStream domain of the server. With it the system has a
	// user for leaf nodes (LeafFile). Empty: none.
	Domain string
}

// The files of a system, below its directory.
const (
	ConfFile     = "nats-server.conf"
	AccountsFile = "accounts.conf"
	TenantsFile  = "tenants.conf"
	CAFile       = "tls/ca.pem"
	// LeafFile has the credentials of a leaf node. No other connection is
	// admitted with them. A leaf node passes on what its own clients may do,
	// so it is trusted like a server of the bus.
	LeafFile = "leaf.creds"

	serverCert = "tls/server.pem"
	serverKey  = "tls/server.key"
	caKey      = "tls/ca.key"
	keysDir    = "keys"
	tenantsDir = "tenants"
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
	c.ServerStore = max(c.ServerStore, c.MaxStore)
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
	tenant
	// sys belongs to the server itself.
	sys account
}

func newSystem(c Config) (_ *system, err error) {
	s := &system{Config: c}
	if s.operator, err = nkeys.CreateOperator(); err != nil {
		return nil, err
	}
	if s.tenant, err = newTenant(c.Account, c.Users, c.Space); err != nil {
		return nil, err
	}
	s.leaves = c.Domain != ""
	if s.sys, err = newAccount("SYS"); err != nil {
		return nil, err
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
	if s.sys.JWT, err = s.sys.claims().Encode(s.operator); err != nil {
		return err
	}
	return s.tenant.sign(s.operator, Limits{MaxStore: s.MaxStore})
}

// write writes the keys, the users and the configuration.
func (s *system) write() error {
	if err := writeKeys(s.Dir, map[string]nkeys.KeyPair{"operator": s.operator, "system": s.sys.key}); err != nil {
		return err
	}
	if err := s.tenant.write(s.Dir); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(s.Dir, TenantsFile), []byte(tenantsHead)); err != nil {
		return err
	}
	for file, text := range map[string]*template.Template{ConfFile: confText, AccountsFile: accountsText} {
		conf, err := s.conf(text)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(s.Dir, file), conf); err != nil {
			return err
		}
	}
	return nil
}

// writeKeys writes the seeds of keys.
func writeKeys(dir string, keys map[string]nkeys.KeyPair) error {
	for name, key := range keys {
		seed, err := key.Seed()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, keysDir, name+".nk"), append(seed, '\n')); err != nil {
			return err
		}
	}
	return nil
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

// URL is the address for clients: that of Listen or, if the server listens at
// all addresses of its machine, the first host. A pattern such as *.example.com
// is no host.
func (c Config) URL() (string, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("listen address must be HOST:PORT, got %q: %w", c.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = c.firstHost(); err != nil {
			return "", err
		}
	}
	return "tls://" + net.JoinHostPort(host, port), nil
}

// firstHost returns the first name or address of the server's certificate that
// is no pattern.
func (c Config) firstHost() (_ string, err error) {
	hosts := c.Hosts
	if len(hosts) == 0 {
		if hosts, err = hostsOf(c.CertFile); err != nil {
			return "", fmt.Errorf("certificate %s: %w", c.CertFile, err)
		}
	}
	for _, h := range hosts {
		if !strings.HasPrefix(h, "*") {
			return h, nil
		}
	}
	return "", fmt.Errorf("the certificate has the names %q, and none of them is a host", hosts)
}
