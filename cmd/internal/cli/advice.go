package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/provider"
)

// advice returns a person's next step after an error, "" without one.
func advice(err error) string {
	_, absent := errors.AsType[*noServerError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	file, _ := errors.AsType[*configs.Error](err)
	switch {
	case errors.Is(err, client.ErrUnknownTree):
		return "axe ps --all lists the trees"
	case errors.Is(err, client.ErrRemoved):
		// Workers may still write messages of this tree, so another
		// tree must not have its id.
		return "submit it again with another --id"
	case errors.Is(err, client.ErrUnknownRun):
		return "axe show ID draws a tree's runs"
	case errors.Is(err, client.ErrEnded):
		return "axe wait prints the outcome of the tree, and axe fork continues its conversation in a new one"
	case errors.Is(err, client.ErrNoMail):
		return `axe interrupt makes it wait for mail, and style = "mail" in its agent's file gives it mail tools`
	case errors.Is(err, client.ErrNotHeld), errors.Is(err, client.ErrNoArguments):
		return "axe pending lists the turns that wait for a person"
	case errors.Is(err, client.ErrNothingToSettle), errors.Is(err, client.ErrManyToSettle),
		errors.Is(err, client.ErrSettledOtherwise):
		return "axe pending lists the calls that wait for a person"
	case errors.Is(err, client.ErrUnknownDeadLetter):
		return "axe dead list has the dead letters"
	case errors.Is(err, client.ErrUnknownArtifact):
		return "axe artifacts ID lists those of a tree"
	case errors.Is(err, client.ErrKeptTooShort):
		return "give it a shorter --timeout, or start a worker with a longer --keep"
	case errors.Is(err, client.ErrAtWork):
		return "axe cancel ID --wait ends it"
	case errors.Is(err, client.ErrExists):
		return "axe forget ID removes it"
	case errors.Is(err, client.ErrNotEnded):
		return "export it again when it has ended"
	case errors.Is(err, client.ErrIDTaken):
		return "take another id"
	case errors.Is(err, bus.ErrNoStream):
		return "agentd --agents DIR --server URL connects one"
	case bus.Unauthorized(err):
		return "--user, --token, --creds or --nkey names a user that the server knows; " +
			"agentd --embedded admits only programs of its own user"
	case errors.Is(err, bus.ErrCredentials):
		return "--creds names a file with a user's JWT and seed, as nsc generate creds writes it, " +
			"and --nkey one with a seed"
	case errors.Is(err, configs.ErrSyntax):
		return `a line of TOML is key = value or a [table]; text stands in "", and text of several lines in """ """`
	case file != nil && errors.Is(err, fs.ErrNotExist) && filepath.Ext(file.File) != ".toml":
		return "axe agents init NAME --agents " + file.File + " makes the directory and an agent"
	case absent:
		return "--server names another server, and agentd --agents DIR --embedded starts one"
	case untrusted:
		return "--tls-ca names a file with the authorities to trust"
	case errors.Is(err, bus.ErrNoReader):
		return "agentd --agents DIR --server URL starts a worker; or give this user the permission" +
			roles.OfViolation(err)
	case bus.Forbidden(err):
		return "the server does not let this user do that: connect as another user, or give this one the permission" +
			roles.OfViolation(err)
	}
	return ""
}

// hint returns a person's next step after a failed outcome, "" without one.
func hint(o run.Outcome) string {
	switch o.Kind {
	case run.KindTimeout:
		return "--timeout gives a tree more time, and --progress plain shows where it goes"
	case run.KindTurns:
		return "its model called tools in every turn: tell it in the system_prompt when to answer, " +
			"or take agents out of sub_agents; --progress plain shows the calls"
	case run.KindPoisoned:
		return "axe dead list has the message that was given up"
	case run.KindError:
		return hintAtError(o)
	case run.KindCancelled, run.KindDepth, run.KindBudget, run.KindUnknownAgent, run.KindPolicy, run.KindSubAgentError,
		run.KindUnknown:
	}
	return ""
}

// hintAtError is hint for an outcome of the kind error.
func hintAtError(o run.Outcome) string {
	if strings.Contains(o.Error, "is Ollama running?") {
		return "ollama serve starts it; base_url in [providers.ollama] of config.toml names another address"
	}
	switch o.Category {
	case run.CategoryConfig:
		return "correct the agent's file; axe agents check DIR names everything that is wrong there"
	case string(provider.Auth):
		return "check the API key of the model's provider, in the environment or config.toml; " +
			"axe run --dry-run needs no key"
	case string(provider.BadRequest):
		return "check model and [params] in the agent's file"
	case string(provider.ContextWindow):
		return "give the agent less text, or a model with a larger window"
	case string(provider.RateLimit), string(provider.Overloaded), string(provider.Server), string(provider.Timeout):
		const later = "try again later, or raise max_attempts in the agent's [retry]"
		if o.Retries == 0 {
			return "the request was sent once: " + later
		}
		return fmt.Sprintf("requests were sent again %d times in all: %s", o.Retries, later)
	}
	return ""
}

// Explain adds to the error of an outcome. If the configuration of a worker is
// at fault, for example by a missing key, it names the worker. If the agent is
// unknown, it names an agent on the bus with a similar name or, without one,
// the command that lists the agents.
func Explain(ctx context.Context, conn *bus.Conn, err error, o run.Outcome) error {
	local := o.Category == string(provider.Auth) || o.Category == run.CategoryConfig
	switch {
	case err == nil:
	case local && o.Worker != "":
		return fmt.Errorf("%w (worker %s)", err, o.Worker)
	case o.Kind == run.KindUnknownAgent:
		if near := nearestAgent(ctx, conn, o.Agent); near != "" {
			return fmt.Errorf("%w; did you mean %q?", err, near)
		}
		return fmt.Errorf("%w; axe agents list --server URL lists the agents on the bus", err)
	}
	return err
}

// nearestAgent returns the agent on the bus with the most similar name. It
// returns "" if no name is similar, or if the bus does not answer.
func nearestAgent(ctx context.Context, conn *bus.Conn, agent string) string {
	return configs.Nearest(agentsOn(ctx, conn), agent)
}

// agentsOn returns the agents that workers have announced and that can be
// called. It returns none if the bus does not answer.
func agentsOn(ctx context.Context, conn *bus.Conn) (names []string) {
	cards, err := Cards(ctx, conn)
	if err != nil {
		return nil
	}
	for _, c := range cards {
		if c.CallProblem() == "" {
			names = append(names, c.Name)
		}
	}
	return names
}
