package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// Limits are the most that an account may use.
type Limits struct {
	// MaxStore is the most bytes of its streams on disk.
	MaxStore int64
	// MaxConnections is the most clients at once without submitters, and the
	// most submitters at once. 0 is no limit.
	MaxConnections int64
}

// Tenant says which tenant to add to a system.
type Tenant struct {
	// Dir is the directory of the system, which Make wrote.
	Dir string
	// OperatorKey is the file with the seed of the operator. Empty is
	// keys/operator.nk of the directory.
	OperatorKey string
	// Name becomes the name of the account, and of a directory: a letter or
	// digit, then up to 31 of A-Z a-z 0-9 _ -.
	Name string
	// Users are the users of the tenant.
	Users []roles.User
	// Space is that of Config.
	Space subjects.Space
	// Domain is that of Config.
	Domain string
	Limits
}

// Errors of Add.
var (
	ErrTenantName   = errors.New("the name of a tenant must be a letter or digit, then up to 31 of A-Z a-z 0-9 _ -")
	ErrTenantExists = errors.New("the tenant exists, and keys are never replaced")
	ErrNoRoom       = errors.New("the server has no room for the tenant")
	ErrNoTenants    = errors.New("not a system that axe auth init made with a file for tenants")
)

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// TenantDir is the directory with the creds and keys of a tenant, below that of
// its system.
func TenantDir(name string) string { return filepath.Join(tenantsDir, name) }

// Add makes the accounts and the users of a tenant, and adds the accounts to
// the configuration. The server has them after a reload. After an error nothing
// of the tenant is left. A process that is killed may leave files: the next Add
// names them.
func Add(t Tenant) (err error) {
	if !tenantName.MatchString(t.Name) {
		return fmt.Errorf("%q: %w", t.Name, ErrTenantName)
	}
	operator, err := t.readOperator()
	if err != nil {
		return err
	}
	if err := t.checkRoom(); err != nil {
		return err
	}
	made, err := newTenant(t.Name, t.Users, t.Space)
	if err != nil {
		return err
	}
	made.leaves = t.Domain != ""
	if err := made.sign(operator, t.Limits); err != nil {
		return err
	}
	file := filepath.Join(t.Dir, TenantsFile)
	next, err := t.appendConf(file, made)
	if err != nil {
		return err
	}
	dir := filepath.Join(t.Dir, TenantDir(t.Name))
	if err := t.makeDir(dir, made); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return finish(next, file, dir)
}

// finish puts the new file of tenants into the place of the old one. If that
// fails, it removes the new file and the tenant's directory.
func finish(next, file, dir string) error {
	err := os.Rename(next, file)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir), os.Remove(next))
	}
	return nil
}

// makeDir makes the directory of a tenant, with its keys and creds.
func (t Tenant) makeDir(dir string, made tenant) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return t.existing(dir)
	} else if err != nil {
		return err
	}
	if err := made.write(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// existing returns the error for a tenant that has a directory already.
func (t Tenant) existing(dir string) error {
	file := filepath.Join(t.Dir, TenantsFile)
	conf, err := os.ReadFile(file)
	if err == nil && !bytes.Contains(conf, []byte("\n# "+t.Name+"\n")) {
		return fmt.Errorf("%s: %w; %s does not have it: if no server ever had it, remove the directory",
			dir, ErrTenantExists, file)
	}
	return errors.Join(fmt.Errorf("%s: %w", dir, ErrTenantExists), err)
}

// appendConf writes the file of tenants with the accounts of one more, and
// returns the name of the new file. It has the owner and the permissions of the
// old one, which a server reads. Two calls of Add do not write at once: the
// second one finds the new file of the first.
func (t Tenant) appendConf(file string, made tenant) (string, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w: %w", t.Dir, ErrNoTenants, err)
	} else if err != nil {
		return "", err
	}
	next, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w: another tenant is being added; if none is, remove the file", err)
	} else if err != nil {
		return "", err
	}
	old, err := os.ReadFile(file)
	if err == nil {
		_, err = next.Write(append(bytes.TrimRight(old, "\n"), made.lines()...))
	}
	if err == nil {
		err = giveTo(next, info)
	}
	if err == nil {
		err = next.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return "", errors.Join(err, os.Remove(next.Name()))
	}
	return next.Name(), nil
}

// checkRoom checks that the server has room for the streams of all tenants. The
// server reserves the most bytes of each account. It makes no streams of an
// account for which it has no room.
func (t Tenant) checkRoom() error {
	file := filepath.Join(t.Dir, ConfFile)
	read, err := conf.ParseFile(file)
	if err != nil {
		return err
	}
	stream, _ := read["jetstream"].(map[string]any)
	room, ok := stream["max_file_store"].(int64)
	if !ok {
		return fmt.Errorf("%s: no number for max_file_store", file)
	}
	taken := int64(0)
	accounts, err := conf.ParseFile(filepath.Join(t.Dir, AccountsFile))
	if err != nil {
		return err
	}
	preload, _ := accounts["resolver_preload"].(map[string]any)
	for public, token := range preload {
		text, _ := token.(string)
		claims, err := jwt.DecodeAccountClaims(text)
		if err != nil {
			return fmt.Errorf("%s: account %s: %w", filepath.Join(t.Dir, AccountsFile), public, err)
		}
		taken += max(0, claims.Limits.DiskStorage)
	}
	if taken+t.MaxStore > room {
		return fmt.Errorf("%w: tenants have %d bytes, this one wants %d, and max_file_store in %s is %d; raise it and "+
			"restart the server, or take less", ErrNoRoom, taken, t.MaxStore, file, room)
	}
	return nil
}

// readOperator reads the key that signs accounts. It has to be the key of the
// system's operator.
func (t Tenant) readOperator() (nkeys.KeyPair, error) {
	file := cmp.Or(t.OperatorKey, filepath.Join(t.Dir, keysDir, "operator.nk"))
	key, err := readSeed(file)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	conf, err := os.ReadFile(filepath.Join(t.Dir, AccountsFile))
	if err != nil {
		return nil, err
	}
	line := regexp.MustCompile(`(?m)^operator: (\S+)`).FindSubmatch(conf)
	if line == nil {
		return nil, fmt.Errorf("%s: no line with the operator", filepath.Join(t.Dir, AccountsFile))
	}
	claims, err := jwt.DecodeOperatorClaims(string(line[1]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(t.Dir, AccountsFile), err)
	}
	if claims.Subject != public {
		return nil, fmt.Errorf("%s: not the key of this system's operator %s", file, claims.Subject)
	}
	return key, nil
}

// tenant holds the keys and the claims of a tenant: an account with the
// streams, and one of submitters.
type tenant struct {
	users        []roles.User
	space        subjects.Space
	main, guests account
	// public are the public keys of the users, by name.
	public map[string]string
	// leaves says that leaf nodes may join.
	leaves bool
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

func (a account) claims() *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(a.Public)
	claims.Name = a.Name
	return claims
}

func newTenant(name string, users []roles.User, space subjects.Space) (t tenant, err error) {
	t.users, t.space, t.public = users, space, map[string]string{}
	if t.main, err = newAccount(name); err != nil {
		return t, err
	}
	t.guests, err = newAccount(name + "_SUBMITTERS")
	return t, err
}

// sign makes the claims of the accounts. The one of the streams exports the
// subjects that submitters publish to, to the other one alone.
func (t *tenant) sign(operator nkeys.KeyPair, most Limits) (err error) {
	main, guests := t.main.claims(), t.guests.claims()
	main.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: most.MaxStore, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	if most.MaxConnections > 0 {
		main.Limits.Conn, guests.Limits.Conn = most.MaxConnections, most.MaxConnections
	}
	for _, subject := range t.offered() {
		main.Exports.Add(&jwt.Export{
			// A read has many answers.
			Name: subject, Subject: jwt.Subject(subject), Type: jwt.Service, ResponseType: jwt.ResponseTypeStream,
			TokenReq: true,
		})
		imported, err := t.permit(subject)
		if err != nil {
			return err
		}
		guests.Imports.Add(imported)
	}
	if t.main.JWT, err = main.Encode(operator); err != nil {
		return err
	}
	t.guests.JWT, err = guests.Encode(operator)
	return err
}

// offered are the subjects that submitters publish to.
func (t *tenant) offered() (all []string) {
	for _, u := range t.users {
		if u.Role != roles.Submitter {
			continue
		}
		for _, s := range u.Publish {
			// Every account has this subject. Users that are added
			// later need no other account.
			if s != subjects.UserInfo {
				all = append(all, subjects.AnyUser(s))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// permit returns the import of a subject into the account of the submitters. No
// other account may import it.
func (t *tenant) permit(subject string) (*jwt.Import, error) {
	claims := jwt.NewActivationClaims(t.guests.Public)
	claims.Name, claims.ImportSubject, claims.ImportType = subject, jwt.Subject(subject), jwt.Service
	token, err := claims.Encode(t.main.key)
	if err != nil {
		return nil, err
	}
	return &jwt.Import{
		Name: subject, Subject: jwt.Subject(subject), Account: t.main.Public, Token: token, Type: jwt.Service,
	}, nil
}

// write writes the keys of the accounts, and the creds of the users.
func (t *tenant) write(dir string) error {
	if err := writeKeys(dir, map[string]nkeys.KeyPair{"account": t.main.key, "submitters": t.guests.key}); err != nil {
		return err
	}
	if t.leaves {
		creds, err := t.leafCreds()
		if err != nil {
			return fmt.Errorf("user of leaf nodes: %w", err)
		}
		if err := writeFile(filepath.Join(dir, LeafFile), creds); err != nil {
			return err
		}
	}
	for _, u := range t.users {
		creds, err := t.creds(u)
		if err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
		if err := writeFile(filepath.Join(dir, CredsFile(u.Name)), creds); err != nil {
			return err
		}
	}
	return t.writeGrants(dir)
}

// lines are those of the accounts in the file of tenants.
func (t *tenant) lines() string {
	return fmt.Sprintf("\n\n# %s\n%s: %s\n%s: %s\n", t.main.Name, t.main.Public, t.main.JWT, t.guests.Public,
		t.guests.JWT)
}

// creds makes a user, and returns the content of its creds file.
func (t *tenant) creds(u roles.User) ([]byte, error) {
	signer := t.main
	if u.Role == roles.Submitter {
		signer = t.guests
	}
	return signer.creds(func(claims *jwt.UserClaims) {
		claims.Name, t.public[u.Name] = u.Name, claims.Subject
		claims.Tags.Add("role:" + string(u.Role))
		claims.Pub.Allow.Add(u.Publish...)
		claims.Pub.Deny.Add(u.DenyPublish...)
		claims.Sub.Allow.Add(u.Subscribe...)
		if u.Responds {
			claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: roles.ResponseTime}
		}
	})
}

// leafCreds makes the user of leaf nodes. Interest passes a leaf connection only
// as a whole, so the user has no bounds: those of a leaf node's clients hold
// there.
func (t *tenant) leafCreds() ([]byte, error) {
	return t.main.creds(func(claims *jwt.UserClaims) {
		claims.Name = "leaf"
		claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeLeafnode)
	})
}

// creds makes a user of the account, and returns the content of its creds file.
func (a account) creds(fill func(*jwt.UserClaims)) ([]byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public)
	fill(claims)
	text, err := claims.Encode(a.key)
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(text, seed)
}

// URLOf is the address for clients of the system in a directory.
func URLOf(dir string) (string, error) {
	file := filepath.Join(dir, ConfFile)
	read, err := conf.ParseFile(file)
	if err != nil {
		return "", err
	}
	listen, ok := read["listen"].(string)
	if !ok {
		return "", fmt.Errorf("%s: no listen address", file)
	}
	tls, _ := read["tls"].(map[string]any)
	certFile, _ := tls["cert_file"].(string)
	url, err := Config{Listen: listen, CertFile: certFile}.URL()
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return url, nil
}
