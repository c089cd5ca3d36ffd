package roles

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// User is a user with the permissions of a role.
type User struct {
	Name string
	Role Role
	Permissions
}

// WriteConf writes a user in the form of a list of users in nats-server.conf.
func (u User) WriteConf(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n{\n  user: %s\n  password: \"\" # or nkey: U… instead of user and password\n", u.Role,
		u.Role.Does(), u.Name)
	if u.Role == Submitter {
		b.WriteString("  # give submitters an account of their own, which imports these services:\n" +
			"  # the server checks no reply subject (docs/security.md)\n")
	}
	b.WriteString("  permissions: {\n    publish: {\n")
	writeSubjects(&b, "allow", u.Publish)
	writeSubjects(&b, "deny", u.DenyPublish)
	b.WriteString("    }\n    subscribe: {\n")
	writeSubjects(&b, "allow", u.Subscribe)
	b.WriteString("    }\n")
	if u.Responds {
		fmt.Fprintf(&b, "    allow_responses: { max: 1, expires: %q }\n", ResponseTime)
	}
	b.WriteString("  }\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSubjects(b *strings.Builder, name string, all []string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "      %s: [\n", name)
	for _, s := range all {
		fmt.Fprintf(b, "        %q\n", s)
	}
	b.WriteString("      ]\n")
}

// WriteNSC writes a user as the command of nsc that adds it to an account.
func (u User) WriteNSC(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\nnsc add user --name %s", u.Role, u.Role.Does(), u.Name)
	for _, flag := range []struct {
		name string
		all  []string
	}{{"--allow-pub", u.Publish}, {"--deny-pub", u.DenyPublish}, {"--allow-sub", u.Subscribe}} {
		for _, s := range flag.all {
			fmt.Fprintf(&b, " \\\n  %s '%s'", flag.name, s)
		}
	}
	if u.Responds {
		fmt.Fprintf(&b, " \\\n  --allow-pub-response=1 --response-ttl %s", ResponseTime)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// subjectSet is a part of the claims of a user's JWT.
type subjectSet struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// WriteJSON writes a user as one line of JSON. Its fields pub and sub are those
// of the user's JWT.
func (u User) WriteJSON(w io.Writer) error {
	into := json.NewEncoder(w)
	into.SetEscapeHTML(false)
	claims := map[string]any{
		"name": u.Name, "role": u.Role, "pub": subjectSet{u.Publish, u.DenyPublish},
		"sub": subjectSet{Allow: u.Subscribe},
	}
	if u.Responds {
		claims["resp"] = map[string]any{"max": 1, "ttl": ResponseTime}
	}
	return into.Encode(claims)
}
