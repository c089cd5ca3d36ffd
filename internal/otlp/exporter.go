package otlp

import (
	"bytes"
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
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// defaultTimeout bounds one request, unless the environment says
	// otherwise.
	defaultTimeout = 10 * time.Second
	// maxSpans is the largest number of spans in one request.
	maxSpans = 512
	// maxRefusal bounds the part of a refusal that an error shows, in bytes.
	maxRefusal = 300
	// maxAnswer bounds the part of an answer that is read, in bytes.
	maxAnswer = 1 << 20
)

// ErrOff is the error of FromEnv if the environment names no collector, or
// turns the export off with OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER.
var ErrOff = errors.New("no collector: set OTEL_EXPORTER_OTLP_ENDPOINT, for example to http://127.0.0.1:4318")

// ErrPasses is wrapped by the error of an export that the caller may try again:
// the collector did not answer, or asked to wait. A collector with a
// certificate that the client does not trust counts as one that did not answer.
var ErrPasses = errors.New("the collector takes no spans at this moment")

// ErrRefused is wrapped by the error of an export whose spans, or some of them,
// the collector does not take. The collector may take other spans.
var ErrRefused = errors.New("the collector refuses the spans")

// Exporter sends spans to a collector. It is safe for concurrent use.
type Exporter struct {
	url      string
	header   http.Header
	timeout  time.Duration
	gzip     bool
	client   *http.Client
	resource *resourcepb.Resource
	version  string
}

// FromEnv makes an exporter from the standard variables of OpenTelemetry.
// Getenv returns the value of a variable, as os.Getenv does. Version is that of
// the program. The error is ErrOff if the export is off.
func FromEnv(getenv func(string) string, version string) (*Exporter, error) {
	// env returns the name and the value of a variable. One for traces goes
	// before one for all signals.
	env := func(name string) (variable, value string) {
		if value = getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
			return "OTEL_EXPORTER_OTLP_TRACES_" + name, value
		}
		return "OTEL_EXPORTER_OTLP_" + name, getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	e := &Exporter{header: http.Header{}, timeout: defaultTimeout, version: version, client: &http.Client{
		// A redirected POST loses its body, or gives it to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	variable, endpoint := env("ENDPOINT")
	if e.url = endpoint; variable == "OTEL_EXPORTER_OTLP_ENDPOINT" && endpoint != "" {
		e.url = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	disabled := strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none"
	if e.url == "" || disabled {
		return nil, ErrOff
	}
	if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s must be an http or https URL, got %q", variable, endpoint)
	}
	if variable, p := env("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("%s must be http/protobuf, got %q", variable, p)
	}
	switch variable, c := env("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		e.gzip = true
	default:
		return nil, fmt.Errorf("%s must be gzip or none, got %q", variable, c)
	}
	if variable, given := env("TIMEOUT"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%s must be a positive number of milliseconds, got %q", variable, given)
		}
		e.timeout = time.Duration(n) * time.Millisecond
	}
	if err := e.addHeaders(env("HEADERS")); err != nil {
		return nil, err
	}
	if err := e.trust(env("CERTIFICATE")); err != nil {
		return nil, err
	}
	return e, e.describe(getenv)
}

// addHeaders adds the headers of a list to each request. An error does not show
// their values, which may be secret.
func (e *Exporter) addHeaders(variable, list string) error {
	headers, err := pairs(variable, list)
	for _, h := range headers {
		if !httpguts.ValidHeaderFieldName(h[0]) || !httpguts.ValidHeaderFieldValue(h[1]) {
			return fmt.Errorf("%s: the header %q has a character that no header may have", variable, h[0])
		}
		e.header.Set(h[0], h[1])
	}
	return err
}

// trust makes the client trust the authorities of a PEM file, and no others.
func (e *Exporter) trust(variable, file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: %s has no certificate", variable, file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	e.client.Transport = transport
	return nil
}

// describe makes the resource of the spans. OTEL_SERVICE_NAME goes before
// OTEL_RESOURCE_ATTRIBUTES, and both go before the name and version of the
// program.
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

// pairs reads a list like a=1,b=2 in which values are percent-encoded. The
// error does not show the list, which may hold a secret.
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

// Export sends spans, at most maxSpans in a request. After a refused request it
// sends the others, and then returns the refusals, which wrap ErrRefused. It
// stops at any other error. That error wraps ErrPasses, or the collector takes
// no spans at all.
func (e *Exporter) Export(ctx context.Context, spans []*tracepb.Span) error {
	var refusals []error
	for part := range slices.Chunk(spans, maxSpans) {
		err := e.send(ctx, part)
		switch {
		case errors.Is(err, ErrRefused):
			refusals = append(refusals, err)
		case err != nil:
			return err
		}
	}
	return errors.Join(refusals...)
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
		// The collector has the spans, though the answer may end early.
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return partlyRefused(answer)
	}
	// The status is enough if the text cannot be read.
	says, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
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

// partlyRefused returns an error if the collector has left out some of the
// spans. The answer is an ExportTraceServiceResponse (OTLP 1.0). Its field
// partial_success has the number of these spans in field 1, and a text in field
// 2. The package of that message would bring gRPC with it.
func partlyRefused(answer []byte) error {
	partial := fields(answer)[1].bytes
	said := fields(partial)
	if said[1].number == 0 {
		return nil
	}
	text := said[2].bytes
	return fmt.Errorf("%w: %d of them: %q", ErrRefused, said[1].number, text[:min(len(text), maxRefusal)])
}

// field is a field of a message of protobuf: a varint or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// fields returns the fields of a message by their numbers, up to one that it
// cannot read.
func fields(message []byte) map[protowire.Number]field {
	all := map[protowire.Number]field{}
	for len(message) > 0 {
		n, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(n, kind, message[tag:])
		if size < 0 {
			break
		}
		var f field
		if value := message[tag : tag+size]; kind == protowire.BytesType {
			f.bytes, _ = protowire.ConsumeBytes(value)
		} else {
			f.number, _ = protowire.ConsumeVarint(value)
		}
		all[n], message = f, message[tag+size:]
	}
	return all
}
