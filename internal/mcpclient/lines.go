package mcpclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/axebus/axe/internal/text"
)

// edge is the number of bytes that are kept of both ends of a line that is too
// long.
const edge = 1 << 10

// lineReader reads lines up to a length, in bytes.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, 64<<10), limit}
}

// next returns the next line without its line break, and without the spaces
// around it. Of a line of more than max bytes it keeps the first and the last
// edge bytes alone, and returns both with errTooLarge.
func (l *lineReader) next() ([]byte, error) {
	var all []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		all = append(all, part...)
		if len(all) > l.max {
			long = true
		}
		if long && len(all) > 2*edge {
			all = append(all[:edge:edge], all[len(all)-edge:]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && len(bytes.TrimSpace(all)) == 0:
			return nil, err
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case long:
			return bytes.TrimSpace(all), errTooLarge
		default:
			return bytes.TrimSpace(all), nil
		}
	}
}

// The beginnings and ends of an answer, as SDKs write it: with the id before
// the result, or behind it.
var (
	idFirst     = regexp.MustCompile(`^\{"jsonrpc": ?"2\.0", ?"id": ?(\d{1,15}), ?"(?:result|error)":`)
	resultFirst = regexp.MustCompile(`^\{(?:"jsonrpc": ?"2\.0", ?)?"(?:result|error)":`)
	idLast      = regexp.MustCompile(`"id": ?(\d{1,15})\}$`)
)

// answerID is the id of an answer of which the first and the last bytes are
// known.
func answerID(l []byte) (jsonrpc.ID, bool) {
	m := idFirst.FindSubmatch(l)
	if m == nil && resultFirst.Match(l) {
		m = idLast.FindSubmatch(l)
	}
	if m == nil {
		return jsonrpc.ID{}, false
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(n)
	return id, err == nil
}

const (
	// maxLogLine bounds a line of a server in the log, in bytes.
	maxLogLine = 1 << 10
	// keptLines is the number of lines that an error has.
	keptLines = 5
)

// lineLog writes the standard error of a server to the log, at the level debug.
// It keeps the last lines.
type lineLog struct {
	log *slog.Logger

	mu    sync.Mutex
	kept  []string
	ended chan struct{}
}

// readFrom logs the lines of r until its end.
func (l *lineLog) readFrom(r io.Reader) {
	defer close(l.ended)
	lines := newLineReader(r, 2*edge)
	for {
		b, err := lines.next()
		if err != nil && !errors.Is(err, errTooLarge) {
			return
		}
		line := text.Truncate(strings.ToValidUTF8(string(b), "?"), maxLogLine)
		if line == "" {
			continue
		}
		l.log.Debug("an MCP server wrote to its standard error", slog.String("line", line))
		l.keep(line)
	}
}

func (l *lineLog) keep(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, line)
	l.kept = l.kept[max(0, len(l.kept)-keptLines):]
}

// settle waits until all lines are read, for d at most.
func (l *lineLog) settle(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.ended:
	case <-t.C:
	}
}

// last returns the last lines.
func (l *lineLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept, "\n")
}
