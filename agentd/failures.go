package agentd

import (
	"log/slog"
	"sync"
	"time"
)

// failures logs errors of pulls and of reads of the activity. Errors may come
// many at a time: one line has the first error and the number of errors.
type failures struct {
	log *slog.Logger

	mu    sync.Mutex
	n     int
	first error
	timer *time.Timer
}

// failureWindow is the time from the first error to the line in the log.
const failureWindow = 2 * time.Second

// add counts an error.
func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.first = err
		f.timer = time.AfterFunc(failureWindow, f.flush)
	}
}

// flush logs the errors so far.
func (f *failures) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		return
	}
	f.timer.Stop()
	f.log.Warn("pulls failed", slog.Int(keyFailures, f.n), slog.Any(keyError, f.first))
	f.n, f.first = 0, nil
}
