package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/subjects"
)

// Asker asks the person at the terminal about the turns and the calls of a tree
// that wait for a person. While it asks, the tree is not drawn. It asks about
// one run after the other. A question ends without an answer if another person
// decides, or if the run ends.
//
// The View of the tree owns the Asker. It calls note with each event, and run
// in a goroutine of its own.
type Asker struct {
	in     io.Reader
	screen *Screen
	// alone says that no other process can reach the tree. After the end of
	// the input such an asker refuses: no person can decide any more.
	alone bool
	// reading starts the goroutine that reads the lines.
	reading sync.Once
	// lines has the lines that the person types. It is closed at the end
	// of the input.
	lines chan string

	mu sync.Mutex
	// held has the runs to ask about. Some may be decided already.
	held []subjects.Run
	// added has a token after held has grown.
	added chan struct{}
	// current is the run of the current question.
	current subjects.Run
	// stop ends the current question. It is nil without one.
	stop context.CancelFunc
}

// NewAsker makes an asker that reads from standard input. It returns nil if
// standard input or the screen is no terminal.
func NewAsker(s *Screen, alone bool) *Asker {
	if !s.terminal || !Terminal(os.Stdin) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return newAsker(os.Stdin, s, alone)
}

func newAsker(in io.Reader, s *Screen, alone bool) *Asker {
	return &Asker{in: in, screen: s, alone: alone, lines: make(chan string), added: make(chan struct{}, 1)}
}

// note notes a run that is held, and ends the current question if its run is no
// longer held.
func (a *Asker) note(e client.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case e.Kind == client.Held && !slices.Contains(a.held, e.Run):
		a.held = append(a.held, e.Run)
		pause.Notify(a.added)
	case e.State.Phase != run.Held && a.stop != nil && e.Run == a.current:
		a.stop()
	}
}

// run asks until ctx ends.
func (a *Asker) run(ctx context.Context, c *client.Client) {
	for {
		r, asking, ok := a.begin(ctx)
		if !ok {
			select {
			case <-a.added:
				continue
			case <-ctx.Done():
				return
			}
		}
		a.screen.Pause()
		if err := a.ask(asking, c, r); err != nil && asking.Err() == nil {
			a.printf("axe: %v\n", err)
		}
		a.screen.Resume()
		a.end()
	}
}

// begin begins a question. It returns the run, and the context of the question.
func (a *Asker) begin(ctx context.Context) (subjects.Run, context.Context, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) == 0 || ctx.Err() != nil {
		return subjects.Run{}, nil, false
	}
	ctx, a.stop = context.WithCancel(ctx)
	a.current, a.held = a.held[0], a.held[1:]
	return a.current, ctx, true
}

// end ends the current question.
func (a *Asker) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
	a.stop = nil
}

// ask asks about a run and sends the decision. It leaves a run alone that is no
// longer held.
func (a *Asker) ask(ctx context.Context, c *client.Client, r subjects.Run) error {
	turn, err := c.HeldTurn(ctx, r.Tree, r.Path)
	if err == nil {
		PrintHeldTurn(a.screen, turn)
		approval, err := a.decision(ctx, turn)
		if err != nil {
			return err
		}
		approval.Turn, approval.By = turn.Turn, os.Getenv("USER")
		return c.Decide(ctx, r.Tree, r.Path, approval)
	}
	if !errors.Is(err, client.ErrNotHeld) {
		return unlessDecided(err)
	}
	call, err := c.HeldCall(ctx, r.Tree, r.Path)
	if err != nil {
		return unlessDecided(err)
	}
	PrintHeldCall(a.screen, call)
	var settlement run.Settlement
	if call.Form != nil {
		settlement, err = a.answer(ctx, call.Form)
	} else {
		settlement, err = a.settlement(ctx)
	}
	if err != nil {
		return err
	}
	settlement.Attempt, settlement.By = call.ID, os.Getenv("USER")
	return c.Settle(ctx, r.Tree, r.Path, settlement)
}

// unlessDecided returns the error of a read of a held run, or nil if the run is
// no longer held.
func unlessDecided(err error) error {
	for _, decided := range []error{client.ErrNothingToSettle, client.ErrEnded, client.ErrCancelled} {
		if errors.Is(err, decided) {
			return nil
		}
	}
	return err
}

const (
	askTurn = "y carries it out. n REASON withholds it. [CALL=]JSON carries it out with other arguments.\nApprove? "
	askForm = "y asks for each field. A JSON object answers it at once. n declines.\nAnswer? "
	askCall = "done TEXT: it has taken effect, with this result. again: the tool is called again. " +
		"fail REASON: the run fails.\nWhat became of it? "
)

// decision asks whether a turn is carried out.
func (a *Asker) decision(ctx context.Context, t client.HeldTurn) (run.Approval, error) {
	for {
		line, err := a.prompt(ctx, askTurn)
		if a.unanswered(err) {
			return run.Approval{Reason: "nobody is there to approve of it"}, nil
		}
		if err != nil {
			return run.Approval{}, err
		}
		word, rest, _ := strings.Cut(line, " ")
		switch strings.ToLower(word) {
		case "y", "yes":
			return run.Approval{Approve: true}, nil
		case "n", "no":
			return run.Approval{Reason: strings.TrimSpace(rest)}, nil
		}
		if !strings.Contains(line, "{") {
			continue
		}
		given, err := OtherArguments(t, []string{line})
		if err == nil {
			return run.Approval{Approve: true, Arguments: given}, nil
		}
		a.printf("%v\n", err)
	}
}

// settlement asks what became of a call that may have taken effect.
func (a *Asker) settlement(ctx context.Context) (run.Settlement, error) {
	for {
		line, err := a.prompt(ctx, askCall)
		if a.unanswered(err) {
			return run.Settlement{As: run.SettleFail, Text: "nobody is there to settle it"}, nil
		}
		if err != nil {
			return run.Settlement{}, err
		}
		word, rest, _ := strings.Cut(line, " ")
		switch as := run.SettleAs(strings.ToLower(word)); as { //nolint:exhaustive // others are no answer here
		case run.SettleDone, run.SettleFail:
			return run.Settlement{As: as, Text: strings.TrimSpace(rest)}, nil
		case run.SettleAgain:
			return run.Settlement{As: as}, nil
		}
	}
}

// answer asks for the answer to the form of a tool.
func (a *Asker) answer(ctx context.Context, form *run.Form) (run.Settlement, error) {
	for {
		line, err := a.prompt(ctx, askForm)
		if a.unanswered(err) {
			return run.Settlement{As: run.SettleDecline}, nil
		}
		if err != nil {
			return run.Settlement{}, err
		}
		word, _, _ := strings.Cut(line, " ")
		switch strings.ToLower(word) {
		case "y", "yes":
			s, err := a.fields(ctx, form)
			if a.unanswered(err) {
				return run.Settlement{As: run.SettleDecline}, nil
			}
			if !errors.Is(err, errMisfit) {
				return s, err
			}
			a.printf("%v\n", err)
		case "n", "no":
			return run.Settlement{As: run.SettleDecline}, nil
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		answers, err := AnswersTo(form, []string{line})
		if err == nil {
			return run.Settlement{As: run.SettleAnswer, Answers: answers}, nil
		}
		a.printf("%v\n", err)
	}
}

// unanswered reports whether the input has ended before an answer that no other
// process can give.
func (a *Asker) unanswered(err error) bool { return errors.Is(err, io.EOF) && a.alone }

// errMisfit is wrapped by the error of an answer that does not fit its
// question.
var errMisfit = errors.New("please answer again")

// fields asks for the fields of each question of a form. An empty line leaves a
// field out.
func (a *Asker) fields(ctx context.Context, form *run.Form) (run.Settlement, error) {
	s := run.Settlement{As: run.SettleAnswer, Answers: map[string]json.RawMessage{}}
	for _, q := range form.Questions {
		var given []string
		for _, f := range toolset.FieldsOf(q) {
			line, err := a.prompt(ctx, Printable(fieldText(f))+": ")
			if err != nil {
				return s, err
			}
			if line != "" {
				given = append(given, f.Name+"="+line)
			}
		}
		answer, err := toolset.ParseFields(q, given)
		if err == nil {
			err = toolset.CheckAnswer(q, answer)
		}
		if err != nil {
			return s, fmt.Errorf("%w: %w", err, errMisfit)
		}
		s.Answers[q.Key] = answer
	}
	return s, nil
}

// prompt prints a text and reads a line. The error is io.EOF at the end of the
// input.
func (a *Asker) prompt(ctx context.Context, text string) (string, error) {
	a.reading.Do(func() { go a.read() })
	a.printf("%s", text)
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", io.EOF
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		a.printf("\n")
		return "", context.Cause(ctx)
	}
}

// read reads lines. Nothing can end a read from a terminal, so its goroutine
// ends with the process.
func (a *Asker) read() {
	defer close(a.lines)
	lines := bufio.NewScanner(a.in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		a.lines <- lines.Text()
	}
}

// maxLine bounds a line that a person types, in bytes.
const maxLine = 1 << 20

func (a *Asker) printf(format string, args ...any) { fmt.Fprintf(a.screen, format, args...) }
