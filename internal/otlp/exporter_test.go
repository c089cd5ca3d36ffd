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
	"google.golang.org/protobuf/encoding/protowire"
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
		"nothing":          {env(), "no collector"},
		"disabled":         {env(at, "http://x", "OTEL_SDK_DISABLED", "true"), "no collector"},
		"no exporter":      {env(at, "http://x", "OTEL_TRACES_EXPORTER", "none"), "no collector"},
		"no URL":           {env(at, "x:4318"), at},
		"protocol":         {env(at, "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"compression":      {env(at, "http://x", compression, "zstd"), compression},
		"timeout":          {env(at, "http://x", "OTEL_EXPORTER_OTLP_TIMEOUT", "10s"), "OTEL_EXPORTER_OTLP_TIMEOUT"},
		"headers":          {env(at, "http://x", "OTEL_EXPORTER_OTLP_HEADERS", "key"), "OTEL_EXPORTER_OTLP_HEADERS"},
		"certificate":      {env(at, "http://x", certificate, "none.pem"), certificate},
		"name of a header": {env(at, "http://x", "OTEL_EXPORTER_OTLP_HEADERS", "a b=c"), "OTEL_EXPORTER_OTLP_HEADERS"},
		"line end in a header": {
			env(at, "http://x", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b%0Ac"), "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		},
		"traces disabled": {env(at, "http://x", "OTEL_SDK_DISABLED", "True"), "no collector"},
		"no URL of traces": {
			env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "x"), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http",
		},
		"timeout of traces": {
			env(at, "http://x", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"), "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
		},
		"attributes": {env(at, "http://x", "OTEL_RESOURCE_ATTRIBUTES", "=x"), "OTEL_RESOURCE_ATTRIBUTES"},
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
		302: {}, 307: {},
		429: passes, 502: passes, 503: passes, 504: passes, 400: refused, 413: refused, 401: {}, 404: {}, 500: {},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				t.Errorf("status %d: the exporter follows a redirection", status)
				return
			}
			w.Header().Set("Location", "/login")
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

// TestPartlyRefused: the collector takes a request and leaves out some of its
// spans, or refuses a request. The exporter sends the other requests all the
// same, and its error has what the collector said of each.
func TestPartlyRefused(t *testing.T) {
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) {
			var partial []byte
			partial = protowire.AppendVarint(protowire.AppendTag(partial, 1, protowire.VarintType), 7)
			partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "names too long")
			_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
		},
		func(w http.ResponseWriter) { http.Error(w, "too large", http.StatusRequestEntityTooLarge) },
		func(http.ResponseWriter) {},
		func(w http.ResponseWriter) {
			// A warning: the collector has taken all spans.
			warning := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "be brief")
			_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), warning))
		},
		func(w http.ResponseWriter) { _, _ = w.Write([]byte{0xff}) },
	}
	var requests int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		answers[requests-1](w)
	}))
	defer server.Close()
	e, err := otlp.FromEnv(env("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL), "v1")
	if err != nil {
		t.Fatal(err)
	}
	many := make([]*tracepb.Span, 5*512)
	for i := range many {
		many[i] = &tracepb.Span{}
	}
	err = e.Export(t.Context(), many)
	if requests != len(answers) || !errors.Is(err, otlp.ErrRefused) {
		t.Fatalf("%d requests, error %v; want %d, and the refusals", requests, err, len(answers))
	}
	said := err.Error()
	if !strings.Contains(said, `7 of them: "names too long"`) || !strings.Contains(said, "too large") ||
		strings.Count(said, otlp.ErrRefused.Error()) != 2 {
		t.Errorf("error %v, want what the collector said of two requests", err)
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
