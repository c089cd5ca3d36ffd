package secret_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/axebus/axe/secret"
)

// holder is a struct as programs print them.
type holder struct {
	Name string
	Key  secret.Text
	Keys map[string]secret.Text
	Ref  *secret.Text
}

// TestNothingShowsASecret: no verb, log handler or encoder shows it, alone or in
// a struct.
func TestNothingShowsASecret(t *testing.T) {
	const hidden = "sk-0123456789abcdef"
	key := secret.Text(hidden)
	h := holder{"openai", key, map[string]secret.Text{"a": key}, &key}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%T", "%30s", "%.3s", "%c"} {
		for _, v := range []any{key, &key, h, &h, []secret.Text{key}, [1]secret.Text{key}} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
	}
	shown = append(shown, fmt.Sprint(key, h), fmt.Sprintln(key))
	shown = append(shown, fmt.Errorf("refused: %w, %v", errors.New("x"), key).Error())
	for _, encode := range []func(any) ([]byte, error){json.Marshal, toml.Marshal, xml.Marshal} {
		for _, v := range []any{struct{ Key secret.Text }{key}, holder{Name: "a", Key: key, Ref: &key}} {
			if b, err := encode(v); err == nil {
				shown = append(shown, string(b))
			}
		}
	}
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		l := slog.New(handler)
		l.Info("a", slog.Any("key", key), slog.Any("all", h), slog.Any("pointer", &key),
			slog.Group("g", slog.Any("k", key)))
	}
	shown = append(shown, log.String())
	for _, s := range shown {
		for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden), hidden[:6]} {
			if strings.Contains(s, form) {
				t.Errorf("%q shows the secret", s)
			}
		}
	}
	if !strings.Contains(log.String(), "[redacted]") {
		t.Errorf("the log does not say that there is a secret:\n%s", log.String())
	}
	if key.Reveal() != hidden || secret.Text("").String() != "" {
		t.Errorf("the secret is %q, and an empty one prints %q", key.Reveal(), secret.Text(""))
	}
}
