package toolset

import (
	"context"
	"errors"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/secret"
)

// Redacted returns a set whose results, errors and descriptions of tools have
// none of the secrets: a server may repeat the headers of a request.
func Redacted(set Set, secrets []secret.Text) Set {
	r := secret.NewRedactor(secrets...)
	if r.Empty() {
		return set
	}
	return redacted{set, r}
}

type redacted struct {
	Set
	r *secret.Redactor
}

// Tools is that of Set.
func (s redacted) Tools(ctx context.Context) ([]Tool, error) {
	tools, err := s.Set.Tools(ctx)
	for i, t := range tools {
		tools[i].Description = s.r.Text(t.Description)
		tools[i].Schema = s.r.Bytes(t.Schema)
	}
	return tools, s.r.Error(err)
}

// Call is that of Set.
func (s redacted) Call(ctx context.Context, c Call) (Result, error) {
	result, err := s.Set.Call(ctx, c)
	result.Text = s.r.Text(result.Text)
	for i, f := range result.Files {
		result.Files[i].Name, result.Files[i].Bytes = s.r.Text(f.Name), s.r.Bytes(f.Bytes)
	}
	if asks, ok := errors.AsType[*InputError](err); ok {
		return result, &InputError{s.form(asks.Form)}
	}
	return result, s.r.Error(err)
}

// form hides the secrets in the texts of a form.
func (s redacted) form(f run.Form) run.Form {
	f.State = s.r.Text(f.State)
	f.Questions = slices.Clone(f.Questions)
	for i, q := range f.Questions {
		f.Questions[i].Text, f.Questions[i].URL = s.r.Text(q.Text), s.r.Text(q.URL)
		f.Questions[i].Schema = s.r.Bytes(q.Schema)
	}
	return f
}
