package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

func authCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "auth", Short: "Plan, check and set up the users of a bus",
		Long: `The users of a bus have roles, and a role has the subjects that its commands
need:

` + roleLines() + `
init makes a new NATS system with a user for each role. tenant adds a bus of its
own to it, for other people. plan prints the permissions for a system that
exists. check tries them with a user's credentials. grant binds the outcomes of
a worker's key to agents.`,
	}, authInitCommand(), authTenantCommand(), authPlanCommand(), busCommand(authCheckCommand),
		busCommand(authGrantCommand), busCommand(authGrantsCommand), busCommand(authRevokeCommand))
}

// roleLines has a line for each role.
func roleLines() string {
	var b strings.Builder
	for _, r := range roles.All() {
		fmt.Fprintf(&b, "  %-12s %s\n", r, r.Does())
	}
	return b.String()
}

// scopeFlags say which part of a bus a role is for.
type scopeFlags struct {
	role       string
	agents     []string
	cancels    bool
	user       string
	prefix     string
	partitions int
	domain     string
	// creds is a file with the credentials of the user.
	creds string
	// last is the scope of the last user.
	last roles.Scope
}

func (f *scopeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.role, "role", "", "role: "+roles.Names())
	cmd.Flags().StringSliceVar(&f.agents, "agents", nil, "agents of a submitter or a worker (default all)")
	cmd.Flags().BoolVar(&f.cancels, "cancels", false, "let a submitter cancel trees that it knows the ids of")
	cmd.Flags().StringVar(&f.user, "name", "", "name of the user, whose inboxes are _INBOX_NAME (default the role)")
	cmd.Flags().IntVar(&f.partitions, "partitions", 1, "number of partitions of the bus")
}

// registerDomain adds the flag of the domain.
func (f *scopeFlags) registerDomain(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.domain, "js-domain", "",
		"JetStream domain of the bus, for users that reach it through a leaf node")
}

var domainName = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

// users returns the user of the role, or of each role.
func (f *scopeFlags) users() (all []roles.User, _ error) {
	which := roles.All()
	if f.role != "" {
		r, err := roles.Parse(f.role)
		if err != nil {
			return nil, cli.Usage("--role: %v", err)
		}
		which = []roles.Role{r}
	}
	if f.user != "" && len(which) > 1 {
		return nil, cli.Usage("--name needs --role")
	}
	if f.partitions < 1 || f.partitions > bus.MostPartitions {
		return nil, cli.Usage("--partitions must be 1 to %d, got %d", bus.MostPartitions, f.partitions)
	}
	space, err := subjects.NewSpace(f.prefix)
	if err != nil {
		return nil, cli.Fail(cli.CodeConfig, err)
	}
	if !domainName.MatchString(f.domain) || f.domain == "API" {
		return nil, cli.Usage("--js-domain must be of A-Z a-z 0-9 _ -, and not API, got %q", f.domain)
	}
	if f.cancels && (len(which) > 1 || which[0] != roles.Submitter) {
		return nil, cli.Usage("--cancels is for --role submitter")
	}
	scope := roles.Scope{Space: space.Spread(f.partitions), Domain: f.domain, Cancels: f.cancels}
	for _, name := range f.agents {
		a, err := subjects.ParseAgent(name)
		if err != nil {
			return nil, cli.Usage("--agents: %v", err)
		}
		scope.Agents = append(scope.Agents, a)
	}
	if len(scope.Agents) > 0 && len(which) == 1 && !which[0].OfAgents() {
		return nil, cli.Usage("--agents: the role %s is not bound to agents", which[0])
	}
	for _, r := range which {
		scope.User = string(r)
		if f.user != "" {
			scope.User = f.user
		}
		if subjects.Inboxes(scope.User) == "" {
			return nil, cli.Usage("--name must be 1 to 64 of A-Z a-z 0-9 _ -, got %q", scope.User)
		}
		all = append(all, roles.User{Name: scope.User, Role: r, Permissions: r.Permissions(scope)})
		f.last = scope
	}
	return all, nil
}

func authPlanCommand() *cobra.Command {
	var scope scopeFlags
	var form string
	cmd := &cobra.Command{
		Use: "plan", Short: "Print the permissions of roles", Args: cobra.NoArgs,
		Long: `Print the permissions of one role, or of all, for a NATS system that exists. The
permissions are those of this version of axe. Give each user a name of its own:
its answers come to _INBOX_NAME, where no other user can subscribe.`,
		Example: `  axe auth plan --role submitter --agents lead,reviewer --name ci
  axe auth plan --role worker --form nsc
  axe auth plan --form json | jq 'select(.role == "operator").pub'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := planForms[form]
			if !ok {
				return cli.Usage("--form must be conf, nsc or json, got %q", form)
			}
			users, err := scope.users()
			if err != nil {
				return err
			}
			for _, u := range users {
				if err := write(u, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	scope.register(cmd)
	scope.registerDomain(cmd)
	cmd.Flags().StringVar(&scope.prefix, "prefix", "", "first token of all subjects (default axe)")
	cmd.Flags().StringVar(&form, "form", "conf",
		"conf: users of nats-server.conf; nsc: commands of nsc; json: a line for each user, with the fields of its JWT")
	return cmd
}

// planForms write a user in the forms of axe auth plan.
var planForms = map[string]func(roles.User, io.Writer) error{
	"conf": roles.User.WriteConf, "nsc": roles.User.WriteNSC, "json": roles.User.WriteJSON,
}
