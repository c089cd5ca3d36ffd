package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// serverLog is the logger of an embedded server. A fatal error would end a
// server that has a process of its own. Here Serve returns the first one of the
// start, which is not logged.
type serverLog struct {
	log   *slog.Logger
	first atomic.Pointer[string]
}

// fatal returns the first fatal error of the start. Later ones are logged.
func (l *serverLog) fatal() error {
	if s := l.first.Swap(new(string)); s != nil {
		return errors.New(*s)
	}
	return nil
}

const serverMessage = "nats server"

func line(format string, v []any) slog.Attr {
	return slog.String("line", fmt.Sprintf(format, v...))
}

// Noticef logs a notice, at level debug.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(serverMessage, line(format, v)) }

// Warnf logs a warning.
func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn(serverMessage, line(format, v)) }

// Errorf logs an error.
func (l *serverLog) Errorf(format string, v ...any) { l.log.Error(serverMessage, line(format, v)) }

// Fatalf keeps the first error of the start, and logs every other error. The
// process goes on.
func (l *serverLog) Fatalf(format string, v ...any) {
	if !l.first.CompareAndSwap(nil, new(fmt.Sprintf(format, v...))) {
		l.log.Error(serverMessage, line(format, v))
	}
}

// Debugf is never called: debugging is off.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef is never called: tracing is off.
func (l *serverLog) Tracef(string, ...any) {}
