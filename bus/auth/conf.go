package auth

import (
	"bytes"
	"text/template"
)

// confText is the configuration of a server. Strings are quoted as the server
// reads them.
var confText = template.Must(template.New(ConfFile).Parse(`
# A NATS server for axe, made by axe auth init. It has no secret: the key of its
# certificate is in a file of its own.

# Clients connect here. Other machines reach it if the host is 0.0.0.0, or the
# address of a network.
listen: {{printf "%q" .Listen}}
server_name: axe

# Bodies beyond this size go into the object store.
max_payload: {{.MaxPayload}}

# Every client needs TLS. Clients trust the authority that signed cert_file.
tls {
  cert_file: {{printf "%q" .CertFile}}
  key_file: {{printf "%q" .KeyFile}}
  timeout: 5
}

# The streams. max_file_store is the most bytes on disk of all tenants. Each
# tenant has its part. When that is full, its workers wait, and its submissions
# are refused. Streams keep messages for a week by
# default: see axe provision --max-age. sync_interval: always makes each
# acknowledged write survive a power cut, for some 0.3 ms a write.
jetstream {
  store_dir: {{printf "%q" .StoreDir}}
  max_file_store: {{.ServerStore}}
  sync_interval: always
{{- with .Domain}}
  # Clients of a leaf node reach the streams by this name.
  domain: {{printf "%q" .}}
{{- end}}
}

# The accounts and their users, in a file that every server of a cluster has.
include {{printf "%q" .Accounts}}

# A monitoring port tells everyone who reaches it about the server. Leave it off,
# or let it listen on this machine alone.
# http: "127.0.0.1:8222"
`))

// accountsText is the part of a configuration that all servers of a system
// share.
var accountsText = template.Must(template.New(AccountsFile).Parse(`
# Users are in JWTs that an account has signed, and their permissions with them.
# The server needs no restart for a new user. In keys/, operator.nk signs
# accounts, submitters.nk submitters, and account.nk all other users: keep them
# where no server and no worker is.
operator: {{.Operator}}
# A user shows its permissions when it connects. Those of a worker are longer
# than the default of 4 KiB with several partitions, or with a domain.
max_control_line: 64KB
system_account: {{.Sys.Public}}
resolver: MEMORY
resolver_preload: {
  # {{.Main.Name}}: the streams, workers, operators, observers
  {{.Main.Public}}: {{.Main.JWT}}
  # {{.Guests.Name}}: submitters. They reach nothing but axe.submit and axe.read
  # of the other account, and no stream gets an answer in their name.
  {{.Guests.Public}}: {{.Guests.JWT}}
  # {{.Sys.Name}}: for the operators of the server itself
  {{.Sys.Public}}: {{.Sys.JWT}}

  include {{printf "%q" .Tenants}}
}
`))

// tenantsHead is the file of tenants while there is none.
const tenantsHead = `# More tenants of this system, made by axe auth tenant add: two accounts each, of
# its streams and of its submitters. After a change: nats-server --signal reload.
`

// conf returns the text of a template, filled with the system.
func (s *system) conf(text *template.Template) ([]byte, error) {
	var b bytes.Buffer
	err := text.Execute(&b, struct {
		Config
		Accounts, Tenants, Operator string
		Main, Guests, Sys           account
	}{s.Config, AccountsFile, TenantsFile, s.operatorJWT, s.main, s.guests, s.sys})
	return bytes.TrimSpace(b.Bytes()), err
}
