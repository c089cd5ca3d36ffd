package auth

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// GrantFile is the file with the grant of a worker, below the directory. It has
// no secret.
func GrantFile(user string) string { return user + ".grant" }

// OutcomesFile has the lines for a config.toml by which outcomes have to be
// signed.
const OutcomesFile = "outcomes.toml"

// outcomesText is the content of OutcomesFile, for the public key of an
// account.
const outcomesText = `# For config.toml: only outcomes of workers with a grant of this account count.
[outcomes]
require_signed = true
signers = [%q]
`

// writeGrants grants all agents to the workers of the tenant.
func (t *tenant) writeGrants(dir string) error {
	for _, u := range t.users {
		if u.Role != roles.Worker {
			continue
		}
		token, err := grant.Grant{Key: t.public[u.Name]}.Sign(t.space, t.main.key)
		if err != nil {
			return fmt.Errorf("grant of %s: %w", u.Name, err)
		}
		if err := writeFile(filepath.Join(dir, GrantFile(u.Name)), []byte(token+"\n")); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, OutcomesFile), fmt.Appendf(nil, outcomesText, t.main.Public))
}

// WorkerKey returns the public key of a worker: itself, or that of a creds file
// or a file with a seed.
func WorkerKey(keyOrFile string) (string, error) {
	if nkeys.IsValidPublicUserKey(keyOrFile) {
		return keyOrFile, nil
	}
	key, err := readSeed(keyOrFile)
	if err != nil {
		return "", err
	}
	public, err := key.PublicKey()
	if err == nil && !nkeys.IsValidPublicUserKey(public) {
		err = fmt.Errorf("%s: %w", keyOrFile, grant.ErrKey)
	}
	return public, err
}

// SignGrant signs a grant, for the bus of a space, with the key of an account
// or an operator in a file.
func SignGrant(s subjects.Space, g grant.Grant, file string) (string, error) {
	key, err := readSeed(file)
	if err != nil {
		return "", err
	}
	token, err := g.Sign(s, key)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return token, nil
}

// readSeed reads a key from a file with a seed, or from a creds file.
func readSeed(file string) (nkeys.KeyPair, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}
