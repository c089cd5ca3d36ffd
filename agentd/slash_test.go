package agentd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// slashLead lets the lead that forkingLead has made write slash commands and
// call a leaf, and starts a worker for both.
func (h *harness) slashLead() {
	slashing(&h.agents[0])
	h.agents[0].SubAgents = []string{"leaf"}
	h.agents = append(h.agents, define("leaf", nil))
	h.startWorker("w", workerOptions{})
	h.awaitReady()
}

// slashing gives an agent the styles slash and call.
func slashing(a *configs.Agent) {
	a.Delegation.Styles = configs.Styles{configs.StyleSlash, configs.StyleCall}
}

// TestSlash: slash commands do what the mail tools do. The model is not offered
// those tools, is told the commands, and reads their results and mistakes as
// text. Other tool calls work as usual.
func TestSlash(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				says("I shall ask around.\n/slash fork \"one\"\n/slash fork 'two'\n/slash frok x\n> /slash kill r"),
				says("```\n/slash wait r-1-0 r-1-1\n/slash kill r\n```"),
				says("/slash send r-1-0 once more\n/slash check-mail"),
				says("/slash wait"), says("done"),
			},
			"r-1-0": {says(`say "hello" </slash>`), says("/slash check-mail"), says("more")},
		})
		h.slashLead()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "done")
		requests := h.requestsOf("r")
		if len(requests[0].Tools) != 1 || !strings.Contains(requests[0].System, "- /slash send ID \"MESSAGE\"\n") {
			t.Errorf("%d tools, want call_agent alone, and the commands in the system text: %s",
				len(requests[0].Tools), requests[0].System)
		}
		var got []string
		for _, m := range requests[4].Messages {
			if m.Role != provider.Assistant {
				got = append(got, string(m.Role)+": "+m.Content)
			} else if m.ToolCalls != nil {
				t.Errorf("an answer with tool calls: %+v", m)
			}
		}
		results := "user: Results of your commands, in their order:\n\n"
		want := []string{
			"user: go",
			results + "/slash fork\nr-1-0\n\n/slash fork\nr-1-1\n\n/slash frok x\n/slash frok is not known. The " +
				"commands are: " +
				`/slash fork "PROMPT", or only /slash fork for a child that inherits your context; /slash send ` +
				`ID "MESSAGE"; /slash check-mail; ` +
				"/slash wait, or /slash wait ID ID, or /slash wait --timeout SECONDS ID ID; /slash kill ID\n",
			results + "/slash wait\n" + `{"agents":[{"id":"r-1-0","status":"received",` +
				`"messages":[{"status":"idle","success":true,"summary":"say \"hello\" </slash>"}]},` +
				`{"id":"r-1-1","status":"received","messages":[{"status":"idle","success":true,"summary":"of ` +
				`r-1-1"}]}]}` +
				"\n\n/slash kill\nkill error: you cannot kill yourself: answer, and you are done\n",
			results + "/slash send\nsent to r-1-0\n\n/slash check-mail\nno mail\n",
			results + "/slash wait\n" + `{"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,` +
				`"summary":"more"}}]}` + "\n",
		}
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], "\n")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the messages that the lead was shown (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestSlashForkAndKill: a fork without a prompt knows the conversation with all
// its commands. A killed run is dead.
func TestSlashForkAndKill(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				says("I shall look.\n/slash check-mail"),
				says("/slash fork"),
				delayed(time.Minute, says("/slash kill r-2-0")),
				says("/slash wait r-2-0"),
				says("done"),
			},
			"r-2-0": {delayed(time.Hour, says("never"))},
		})
		h.slashLead()
		r := h.submit("lead", "the task")
		h.expectCompleted(r, "done")
		const results = "Results of your commands, in their order:\n\n"
		if got := h.lastShownTo("r", 4); got != results+"/slash kill\nkilled r-2-0" {
			t.Errorf("after the kill the run is shown %q, want that the copy is killed", got)
		}
		if got := h.lastShownTo("r", 5); got != results+"/slash wait\n"+`{"agents":[{"id":"r-2-0","status":"dead"}]}` {
			t.Errorf("after the wait the run is shown %q, want that the copy is dead", got)
		}
		copied := h.requestsOf("r-2-0")
		if len(copied) != 1 || copied[0].err == nil {
			t.Fatalf("the copy made %d requests, want one that was aborted", len(copied))
		}
		var said []string
		for _, m := range copied[0].Messages {
			said = append(said, m.Content)
		}
		want := []string{
			"the task", "I shall look.\n/slash check-mail", results + "/slash check-mail\nno mail", "/slash fork",
			results + "/slash fork\nYou are now the child r-2-0, a copy of r that knows its conversation until " +
				"here. It goes on without you. " +
				"Do what you were forked for; your answer goes to it as mail.",
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("the messages that the copy was shown (-want +got):\n%s", diff)
		}
		if o := h.outcomes(r.Reply(2, 0)); len(o) != 1 || o[0].Kind != run.KindCancelled {
			t.Errorf("outcomes of the copy: %+v, want one of kind %s", o, run.KindCancelled)
		}
		h.checkVerified()
	})
}

// TestSlashBesideTools: the commands and the tool calls of one answer are one
// turn, and each result has the form of its call. Commands after the 50th are
// not carried out. A command that the policy does not allow is refused.
func TestSlashBesideTools(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		both := func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			resp, err := calls(call("leaf", "x"))(ctx, req)
			resp.Content = "/slash kill r-1-0\n" + strings.Repeat("/slash check-mail\n", 50)
			return resp, err
		}
		h.forkingLead(map[string][]scriptedModel{"r": {both, says("done")}})
		slashing(&h.agents[0])
		h.agents[0].SubAgents = []string{"leaf"}
		h.agents[0].Policy.Tools = []string{"call_agent", "check_mail"}
		h.agents = append(h.agents, define("leaf", nil))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "done")
		msgs := h.requestsOf("r")[1].Messages
		if len(msgs) != 4 || len(msgs[1].ToolCalls) != 1 || msgs[2].ToolResults[0].Content != "leaf" {
			t.Fatalf("the second request shows %+v, want the leaf's result, then the results of the commands", msgs)
		}
		text := msgs[3].Content
		if !strings.Contains(text, "/slash kill\nkill error: not permitted by policy\n") ||
			strings.Count(text, "no mail") != 49 ||
			!strings.Contains(text, "/slash error: 51 commands, and at most 50 of one message are carried out: "+
				"the others were not") {
			t.Errorf("results %s\nwant a refused kill, 49 checks of the mail and an error", text)
		}
		if e := h.entries(r)[0]; len(e.Calls) != 52 || e.Calls[0].Op != run.OpCall || e.Calls[2].Op != run.OpMail {
			t.Errorf("%d calls, want 52: the leaf's, those of 50 commands, and the error", len(e.Calls))
		}
		h.checkVerified()
	})
}
