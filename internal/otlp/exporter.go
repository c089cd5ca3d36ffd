package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// defaultTimeout bounds one request, unless the environment says
	// otherwise.
	defaultTimeout = 10 * time.Second
	// maxSpans is the largest number of spans in one request.
	maxSpans = 512
	// maxAnswer bounds the part of a refusal that an error shows, in bytes.
	maxAnswer = 300
)

// ErrOff is the error of FromEnv if the environment names no collector.
var ErrOff = errors.New("no collector: set OTEL_EXPORTER_OTLP_ENDPOINT, for example to http://127.0.0.1:4318")

// ErrPasses is wrapped by the error of an export that may succeed later.
var ErrPasses = errors.New("the collector takes no spans at this moment")

// ErrRefused is wrapped by the error of an export whose spans the collector
// cannot take. It takes others.
var ErrRefused = errors.New("the collector refuses the spans")

// Exporter sends spans to a collector.
type Exporter struct {
	url      string
	header   http.Header
	timeout  time.Duration
	gzip     bool
	client   *http.Client
	resource *resourcepb.Resource
	version  string
}

// FromEnv makes an exporter of the standard variables of OpenTelemetry. Getenv
// is os.Getenv. Version is that of the program. The error is ErrOff if there is
// no address.
func FromEnv(getenv func(string) string, version string) (*Exporter, error) {
	env := func(name string) string {
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	e := &Exporter{
		header: http.Header{}, timeout: defaultTimeout, client: &http.Client{}, version: version,
		url: getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
	}
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); e.url == "" && base != "" {
		e.url = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if e.url == "" || getenv("OTEL_SDK_DISABLED") == "true" || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, ErrOff
	}
	if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL, got %q", e.url)
	}
	if p := env("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, got %q", p)
	}
	switch c := env("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		e.gzip = true
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none, got %q", c)
	}
	if given := env("TIMEOUT"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT must be milliseconds, got %q", given)
		}
		e.timeout = time.Duration(n) * time.Millisecond
	}
	headers, err := pairs("OTEL_EXPORTER_OTLP_HEADERS", env("HEADERS"))
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		e.header.Set(h[0], h[1])
	}
	if err := e.trust(env("CERTIFICATE")); err != nil {
		return nil, err
	}
	return e, e.describe(getenv)
}

// trust makes the client trust the authorities of a PEM file.
func (e *Exporter) trust(file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	e.client.Transport = transport
	return nil
}

// describe makes the resource of the spans.
func (e *Exporter) describe(getenv func(string) string) error {
	attrs, err := pairs("OTEL_RESOURCE_ATTRIBUTES", getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return err
	}
	attrs = append(attrs, [2]string{"service.name", "axe"}, [2]string{"service.version", e.version})
	if service := getenv("OTEL_SERVICE_NAME"); service != "" {
		attrs = append([][2]string{{"service.name", service}}, attrs...)
	}
	e.resource = &resourcepb.Resource{}
	for i, a := range attrs {
		first := slices.IndexFunc(attrs, func(b [2]string) bool { return a[0] == b[0] })
		if first == i {
			e.resource.Attributes = append(e.resource.Attributes, text(a[0], a[1]))
		}
	}
	return nil
}

// pairs reads a list like a=1,b=2 in which values are percent-encoded.
func pairs(variable, list string) (all [][2]string, _ error) {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			return nil, fmt.Errorf("%s must be a list like key=value,key=value", variable)
		}
		all = append(all, [2]string{key, value})
	}
	return all, nil
}

// Export sends spans. The error wraps ErrPasses if another attempt may succeed.
func (e *Exporter) Export(ctx context.Context, spans []*tracepb.Span) error {
	for part := range slices.Chunk(spans, maxSpans) {
		if err := e.send(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (e *Exporter) send(ctx context.Context, spans []*tracepb.Span) error {
	// The message ExportTraceServiceRequest has the same form.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: e.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "github.com/axebus/axe", Version: e.version}, Spans: spans,
		}},
	}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, nil)
	if err != nil {
		return err
	}
	r.Header = e.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if e.gzip {
		r.Header.Set("Content-Encoding", "gzip")
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		_, _ = w.Write(body) // a buffer takes everything
		_ = w.Close()
		body = small.Bytes()
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := e.client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPasses, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection is used again
		return nil
	}
	says, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status says enough
	err = fmt.Errorf("the collector says %s: %q", resp.Status, says)
	if slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, resp.StatusCode) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	passing := []int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	if slices.Contains(passing, resp.StatusCode) {
		return fmt.Errorf("%w: %w", ErrPasses, err)
	}
	return err
}
