package otlp_test

import (
	"compress/gzip"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/axebus/axe/internal/otlp"
)

// env returns the function of an environment.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// TestEnvironment: the standard variables configure the exporter. It is off
// without an address, and a wrong value is an error that names its variable.
func TestEnvironment(t *testing.T) {
	const (
		at          = "OTEL_EXPORTER_OTLP_ENDPOINT"
		compression = "OTEL_EXPORTER_OTLP_COMPRESSION"
		certificate = "OTEL_EXPORTER_OTLP_CERTIFICATE"
	)
	for name, test := range map[string]struct {
		env  func(string) string
		want string
	}{
		"nothing":     {env(), "no collector"},
		"disabled":    {env(at, "http://x", "OTEL_SDK_DISABLED", "true"), "no collector"},
		"no exporter": {env(at, "http://x", "OTEL_TRACES_EXPORTER", "none"), "no collector"},
		"no URL":      {env(at, "x:4318"), at},
		"protocol":    {env(at, "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"compression": {env(at, "http://x", compression, "zstd"), compression},
		"timeout":     {env(at, "http://x", "OTEL_EXPORTER_OTLP_TIMEOUT", "10s"), "OTEL_EXPORTER_OTLP_TIMEOUT"},
		"headers":     {env(at, "http://x", "OTEL_EXPORTER_OTLP_HEADERS", "key"), "OTEL_EXPORTER_OTLP_HEADERS"},
		"certificate": {env(at, "http://x", certificate, "none.pem"), certificate},
		"attributes":  {env(at, "http://x", "OTEL_RESOURCE_ATTRIBUTES", "=x"), "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		if _, err := otlp.FromEnv(test.env, "v1"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one about %s", name, err, test.want)
		}
	}
}

// TestRequest: a request has the path, the headers and the resource that the
// environment asks for, and the certificate of the collector is checked.
func TestRequest(t *testing.T) {
	var got tracepb.TracesData
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/otlp/v1/traces" || r.Header.Get("Authorization") != "Basic a b" {
			t.Errorf("the request is %s with %v", r.URL, r.Header)
		}
		zipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(zipped)
		if err != nil || proto.Unmarshal(body, &got) != nil {
			t.Errorf("error %v", err)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", server.URL + "/otlp/",
		"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20a%20b",
		"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "OTEL_SERVICE_NAME", "agents",
		"OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment.name=prod",
	}
	untrusting, err := otlp.FromEnv(env(settings...), "v1")
	if err != nil {
		t.Fatal(err)
	}
	spans := []*tracepb.Span{{Name: "one"}}
	if err := untrusting.Export(t.Context(), spans); !errors.Is(err, otlp.ErrPasses) {
		t.Errorf("an unknown authority: error %v", err)
	}
	e, err := otlp.FromEnv(env(append(settings, "OTEL_EXPORTER_OTLP_CERTIFICATE", file)...), "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Export(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	resource := map[string]string{}
	for _, a := range got.GetResourceSpans()[0].GetResource().GetAttributes() {
		resource[a.GetKey()] += a.GetValue().GetStringValue()
	}
	if resource["service.name"] != "agents" || resource["service.version"] != "v1" ||
		resource["deployment.environment.name"] != "prod" {
		t.Errorf("the resource is %v", resource)
	}
}

// TestRefusals: a failure that may pass is told apart from spans that the
// collector cannot take, and from one that takes no spans at all.
func TestRefusals(t *testing.T) {
	type kind struct{ passes, refused bool }
	passes, refused := kind{passes: true}, kind{refused: true}
	for status, want := range map[int]kind{
		429: passes, 502: passes, 503: passes, 504: passes, 400: refused, 413: refused, 401: {}, 404: {}, 500: {},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "because", status)
		}))
		e, err := otlp.FromEnv(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL), "v1")
		if err != nil {
			t.Fatal(err)
		}
		err = e.Export(t.Context(), []*tracepb.Span{{}})
		if got := (kind{errors.Is(err, otlp.ErrPasses), errors.Is(err, otlp.ErrRefused)}); got != want {
			t.Errorf("status %d: error %v", status, err)
		}
		if err == nil || !strings.Contains(err.Error(), "because") {
			t.Errorf("status %d: error %v, want the collector's text", status, err)
		}
		server.Close()
	}
}

// TestManySpans: a tree with many spans is sent in several requests.
func TestManySpans(t *testing.T) {
	var requests, spans int
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // Unmarshal finds what is missing
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		requests++
		spans += len(data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans())
	}))
	defer server.Close()
	e, err := otlp.FromEnv(env("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL), "v1")
	if err != nil {
		t.Fatal(err)
	}
	many := make([]*tracepb.Span, 1500)
	for i := range many {
		many[i] = &tracepb.Span{Name: "x"}
	}
	if err := e.Export(t.Context(), many); err != nil || requests != 3 || spans != len(many) {
		t.Errorf("%d spans came in %d requests, error %v", spans, requests, err)
	}
}
