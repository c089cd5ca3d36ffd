package cli

import (
	"crypto/x509"
	"errors"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// advice returns what a person can do about an error, "" without advice.
func advice(err error) string {
	_, absent := errors.AsType[*noServerError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case errors.Is(err, client.ErrUnknownTree):
		return "axe verify --all names the trees under way"
	case errors.Is(err, client.ErrUnknownRun):
		return "axe wait ID shows the paths of a tree's runs"
	case errors.Is(err, client.ErrNoMail):
		return `axe interrupt makes it wait for mail, and style = "mail" in its agent's file gives it mail tools`
	case errors.Is(err, client.ErrNotHeld):
		return "axe pending lists the turns that wait for a person"
	case errors.Is(err, client.ErrUnknownDeadLetter):
		return "axe dead list has the dead letters"
	case absent:
		return "--server names another server, and agentd --agents DIR --embedded starts one"
	case untrusted:
		return "--tls-ca names a file with the authorities to trust"
	case bus.Forbidden(err):
		return "the server does not let this user do that: connect as another user, or give this one the permission"
	}
	return ""
}
