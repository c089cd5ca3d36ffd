package metrics

import "sync"

// values are those of the one or two labels of a series.
type values [2]string

// series are the time series of a metric. They keep each series that the
// library has found: its own search is half of the cost of counting
// (BenchmarkLeaf).
type series[M any] struct {
	find   func(labels ...string) M
	labels int

	mu    sync.RWMutex
	known map[values]M
}

func newSeries[M any](find func(...string) M, labels int) *series[M] {
	return &series[M]{find: find, labels: labels, known: map[values]M{}}
}

// with returns the series with the values of the labels.
func (s *series[M]) with(v values) M {
	s.mu.RLock()
	m, known := s.known[v]
	s.mu.RUnlock()
	if known {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	labels := v // v itself stays on the stack
	m = s.find(labels[:s.labels]...)
	s.known[v] = m
	return m
}
