package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// agentList are the agents that workers have announced.
type agentList struct {
	Agents []cli.AgentLine `json:"agents"`
}

func (s *Server) listAgents(w http.ResponseWriter, r *http.Request) error {
	all, err := s.reads.agents.get(r.Context(), struct{}{})
	return answered(w, agentList{all}, err)
}

// workerList are the workers.
type workerList struct {
	Workers []cli.WorkerLine `json:"workers"`
}

func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request) error {
	all, err := s.reads.workers.get(r.Context(), struct{}{})
	return answered(w, workerList{append([]cli.WorkerLine{}, all...)}, err)
}

// defaultSince is the time of statistics without since.
const defaultSince = 24 * time.Hour

func (s *Server) readCounts(ctx context.Context, since time.Duration) (client.Statistics, error) {
	return client.ReadStatistics(ctx, s.Client, s.conn.Clocks.Now().Add(-since))
}

// statisticsAnswer has the statistics of agents.
type statisticsAnswer struct {
	Agents []cli.StatisticsLine `json:"agents"`
	// All is false if there are more outcomes than were read.
	All bool `json:"all"`
}

func (s *Server) statistics(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	since, err := duration(q.Get("since"))
	if err != nil {
		return invalid("since %w", err)
	}
	order := cmp.Or(q.Get("sort"), cli.StatisticsOrders()[0])
	if !slices.Contains(cli.StatisticsOrders(), order) {
		return invalid("sort must be one of %v, got %q", cli.StatisticsOrders(), order)
	}
	c, err := s.reads.counts.get(r.Context(), cmp.Or(since, defaultSince))
	if err != nil {
		return err
	}
	agents := slices.Clone(c.Agents)
	cli.SortStatistics(agents, order)
	answer := statisticsAnswer{[]cli.StatisticsLine{}, c.All}
	for _, a := range agents {
		answer.Agents = append(answer.Agents, cli.StatisticsLineOf(a, s.prices))
	}
	return reply(w, http.StatusOK, answer)
}

// readHeld lists the turns and calls that wait for a person, of one tree or,
// for the zero Tree, of all.
func (s *Server) readHeld(ctx context.Context, tree subjects.Tree) (h held, err error) {
	h = held{[]cli.HeldTurnLine{}, []cli.HeldCallLine{}}
	turns, err := s.HeldTurns(ctx, tree)
	if err != nil {
		return h, err
	}
	for _, t := range turns {
		h.Turns = append(h.Turns, cli.HeldTurnLineOf(t))
	}
	calls, err := s.HeldCalls(ctx, tree)
	for _, c := range calls {
		h.Calls = append(h.Calls, cli.HeldCallLineOf(c))
	}
	return h, err
}

func (s *Server) listHeld(w http.ResponseWriter, r *http.Request) error {
	var tree subjects.Tree
	if id := r.URL.Query().Get("tree"); id != "" {
		tree = client.TreeID(id)
	}
	h, err := s.reads.held.get(r.Context(), tree)
	return answered(w, h, err)
}

// letterList are dead letters.
type letterList struct {
	DeadLetters []cli.LetterLine `json:"dead_letters"`
}

func (s *Server) listDeadLetters(w http.ResponseWriter, r *http.Request) error {
	all, err := s.DeadLetters(r.Context())
	if err != nil {
		return err
	}
	list := letterList{DeadLetters: []cli.LetterLine{}}
	for _, l := range all {
		line, err := cli.LetterLineOf(r.Context(), s.Client, l)
		if err != nil {
			return err
		}
		list.DeadLetters = append(list.DeadLetters, line)
	}
	return reply(w, http.StatusOK, list)
}

// letterOf reads the dead letter that a request names.
func (s *Server) letterOf(r *http.Request) (client.DeadLetter, error) {
	id, err := strconv.ParseUint(r.PathValue("letter"), 10, 64)
	if err != nil {
		return client.DeadLetter{}, invalid("the id of a dead letter is a number, got %q", r.PathValue("letter"))
	}
	return s.DeadLetter(r.Context(), id)
}

func (s *Server) showDeadLetter(w http.ResponseWriter, r *http.Request) error {
	l, err := s.letterOf(r)
	if err != nil {
		return err
	}
	line, err := cli.LetterLineOf(r.Context(), s.Client, l)
	if err == nil {
		err = line.AddTask(r.Context(), s.Client, l)
	}
	return answered(w, line, err)
}

// retryBody is the body of a retry. It may be left out.
type retryBody struct {
	// Agent names the agent for a letter that names none.
	Agent string `json:"agent"`
}

func (s *Server) retryDeadLetter(w http.ResponseWriter, r *http.Request) error {
	var body retryBody
	if r.ContentLength != 0 {
		if err := decode(r, &body); err != nil {
			return err
		}
	}
	l, err := s.letterOf(r)
	if err != nil {
		return err
	}
	task, err := cli.RetryTask(r.Context(), s.Client, l, body.Agent)
	if err != nil {
		return err
	}
	tree, err := cli.Submit(r.Context(), s.Client, task)
	if err != nil {
		return err
	}
	return accepted(w, tree)
}
