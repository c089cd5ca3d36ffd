package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestDialHidesSecrets: no way to print, log or encode a Dial shows a password,
// a token or the user of a URL. All of them name the server.
func TestDialHidesSecrets(t *testing.T) {
	t.Parallel()
	d := Dial{
		URL:  "nats://ann:" + hidden + "@host:4222,tls://" + hidden + "@other",
		User: "u", Password: hidden, Token: hidden,
	}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		shown[verb] = fmt.Sprintf(verb, d)
		shown[verb+" of a pointer"] = fmt.Sprintf(verb, &d)
		shown[verb+" within"] = fmt.Sprintf(verb, Config{Dial: d})
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	shown["JSON"] = string(encoded)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", slog.Any("dial", d))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", slog.Any("dial", d), slog.Any("within", Config{Dial: d}.Dial))
	shown["slog"] = log.String()
	for how, text := range shown {
		if strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) ||
			!strings.Contains(text, "host:4222") {
			t.Errorf("%s shows %s", how, text)
		}
	}
}
