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
// one run after the other. A question ends without an answer if somebody else
// decides, or if the run ends.
type Asker struct {
	in     io.Reader
	screen *Screen
	// alone says that no other process can reach the tree.
	alone bool
	// reading is done once the goroutine that reads the lines has begun.
	reading sync.Once
	// lines has the lines that the person types. It is closed at the end
	// of the input.
	lines chan string

	mu sync.Mutex
	// held are the runs to ask about. A run that was decided about
	// meanwhile may be among them.
	held []subjects.Run
	// added has a token after held has grown.
	added chan struct{}
	// current is the run that is asked about, and stop ends the question.
	// Stop is nil if none is asked about.
	current subjects.Run
	stop    context.CancelFunc
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

// note takes an event of the tree.
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
		r, asking, ok := a.next(ctx)
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
		a.done()
	}
}

// next returns the run to ask about, and the context of the question.
func (a *Asker) next(ctx context.Context) (subjects.Run, context.Context, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) == 0 || ctx.Err() != nil {
		return subjects.Run{}, nil, false
	}
	ctx, a.stop = context.WithCancel(ctx)
	a.current, a.held = a.held[0], a.held[1:]
	return a.current, ctx, true
}

func (a *Asker) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
	a.stop = nil
}

// ask asks about a run and sends the decision. A run that is no longer held is
// left alone.
func (a *Asker) ask(ctx context.Context, c *client.Client, r subjects.Run) error {
	turn, err := c.HeldTurn(ctx, r.Tree, r.Path)
	if err == nil {
		approval, err := a.decision(ctx, turn)
		if err != nil {
			return err
		}
		approval.Turn, approval.By = turn.Turn, os.Getenv("USER")
		return c.Decide(ctx, r.Tree, r.Path, approval)
	}
	call, err := c.HeldCall(ctx, r.Tree, r.Path)
	if err != nil {
		return nil //nolint:nilerr // it has been decided meanwhile
	}
	settlement, err := a.settlement(ctx, call)
	if err != nil {
		return err
	}
	settlement.Attempt, settlement.By = call.ID, os.Getenv("USER")
	return c.Settle(ctx, r.Tree, r.Path, settlement)
}

const (
	askTurn = "y carries it out. n REASON withholds it. [CALL=]JSON carries it out with other arguments.\nApprove? "
	askForm = "y answers it. n declines.\nAnswer? "
	askCall = "done TEXT: it has taken effect, with this result. again: the tool is called again. " +
		"fail REASON: the run fails.\nWhat became of it? "
)

// decision asks about a turn.
func (a *Asker) decision(ctx context.Context, t client.HeldTurn) (run.Approval, error) {
	PrintHeldTurn(a.screen, t)
	for {
		line, err := a.prompt(ctx, askTurn)
		if errors.Is(err, io.EOF) && a.alone {
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

// settlement asks about a call of a tool.
func (a *Asker) settlement(ctx context.Context, call client.HeldCall) (run.Settlement, error) {
	PrintHeldCall(a.screen, call)
	question, silent := askCall, run.Settlement{As: run.SettleFail, Text: "nobody is there to settle it"}
	if call.Form != nil {
		question, silent = askForm, run.Settlement{As: run.SettleDecline}
	}
	for {
		line, err := a.prompt(ctx, question)
		if errors.Is(err, io.EOF) && a.alone {
			return silent, nil
		}
		if err != nil {
			return run.Settlement{}, err
		}
		word, rest, _ := strings.Cut(line, " ")
		word, rest = strings.ToLower(word), strings.TrimSpace(rest)
		switch isForm := call.Form != nil; {
		case isForm && (word == "y" || word == "yes"):
			s, err := a.answers(ctx, call.Form)
			if !errors.Is(err, errMisfit) {
				return s, err
			}
			a.printf("%v\n", err)
		case isForm && (word == "n" || word == "no"):
			return run.Settlement{As: run.SettleDecline}, nil
		case !isForm && word == string(run.SettleDone), !isForm && word == string(run.SettleFail):
			return run.Settlement{As: run.SettleAs(word), Text: rest}, nil
		case !isForm && word == string(run.SettleAgain):
			return run.Settlement{As: run.SettleAgain}, nil
		}
	}
}

// errMisfit is wrapped by the error of an answer that does not fit its question.
var errMisfit = errors.New("please answer again")

// answers asks for the fields of each question of a form. An empty line leaves
// a field out.
func (a *Asker) answers(ctx context.Context, form *run.Form) (run.Settlement, error) {
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

// read reads lines. Nothing can end a read from a terminal, so it ends with the
// process.
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
