// Package examples_test runs a whole review with the example agents, without a
// bus.
package examples_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/script"
)

// tree runs agents in one process. A call of an agent is a call of a function.
type tree struct {
	agents map[string]configs.Agent

	mu sync.Mutex
	// runs counts the runs of each agent.
	runs map[string]int
}

// load makes a tree of the agents in this directory.
func load(t *testing.T) *tree {
	t.Helper()
	agents, err := configs.LoadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{agents: map[string]configs.Agent{}, runs: map[string]int{}}
	for _, a := range agents {
		tr.agents[a.Name] = a
	}
	return tr
}

// run runs an agent from its first message to its answer.
func (tr *tree) run(ctx context.Context, name, user string) (string, error) {
	a := tr.agents[name]
	tr.mu.Lock()
	tr.runs[name]++
	tr.mu.Unlock()
	modelName := strings.TrimPrefix(a.Model, "script/")
	model, err := script.Load("scripts", modelName)
	if err != nil {
		return "", err
	}
	about, err := prompt.Resolve(a)
	if err != nil {
		return "", err
	}
	req := &provider.Request{
		Model:    modelName,
		System:   about.Text(),
		Messages: []provider.Message{{Role: provider.User, Content: user}},
	}
	for range 10 {
		resp, err := model.Send(ctx, req)
		if err != nil {
			return "", err
		}
		if len(resp.ToolCalls) == 0 {
			return resp.Content, nil
		}
		req.Messages = append(req.Messages,
			provider.Message{Role: provider.Assistant, Content: resp.Content, ToolCalls: resp.ToolCalls},
			provider.Message{Role: provider.ToolRole, ToolResults: tr.calls(ctx, a, resp.ToolCalls)})
	}
	return "", errors.New("ten turns and no answer")
}

// calls carries out the calls of one turn in parallel.
func (tr *tree) calls(ctx context.Context, a configs.Agent, calls []provider.ToolCall) []provider.ToolResult {
	results := make([]provider.ToolResult, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() {
			text, err := "", errors.New("not among the sub_agents")
			if child := c.Arguments["agent"]; slices.Contains(a.SubAgents, child) {
				text, err = tr.run(ctx, child, prompt.User(c.Arguments["task"], c.Arguments["context"]))
			}
			results[i] = provider.ToolResult{CallID: c.ID, Content: text, IsError: err != nil}
			if err != nil {
				results[i].Content = err.Error()
			}
		})
	}
	wg.Wait()
	return results
}

// TestAgentsAreComplete: the files of each agent can be read, its system text
// has at most 200,000 bytes, and its sub-agents are defined here.
func TestAgentsAreComplete(t *testing.T) {
	tr := load(t)
	for _, a := range tr.agents {
		about, err := prompt.Resolve(a)
		if err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		if len(about.Text()) > 200_000 {
			t.Errorf("%s: the system text has %d bytes, want at most 200,000", a.Name, len(about.Text()))
		}
		for _, s := range a.SubAgents {
			if _, ok := tr.agents[s]; !ok {
				t.Errorf("%s calls %s, which has no definition here", a.Name, s)
			}
		}
	}
}

// TestReview: the lead, three reviewers and nine readers make one report. Each
// line that the report quotes stands at its place in the file. The review takes
// one to two seconds of virtual time, which are about 20 seconds with the
// slowdown of the README.
func TestReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := load(t)
		began := time.Now()
		report, err := tr.run(t.Context(), "lead", prompt.RootUser(""))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{
			"lead":                 1,
			"correctness-reviewer": 1,
			"security-reviewer":    1,
			"readability-reviewer": 1,
			"reader":               9,
		}
		if diff := cmp.Diff(want, tr.runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		took := time.Since(began)
		if took < time.Second || took > 2*time.Second {
			t.Errorf("a review takes %v, want 1s to 2s", took)
		}
		if slow := time.Duration(readmeSlowdown(t)) * took; slow < 18*time.Second || slow > 22*time.Second {
			t.Errorf("the review of the README takes %v, want 18s to 22s", slow)
		}
		for _, part := range []string{
			"# Code review\n\n3 perspectives, ",
			"\n## Correctness\n", "\n## Security\n", "\n## Readability\n", "\ntogether: ",
		} {
			if !strings.Contains(report, part) {
				t.Errorf("the report lacks %q", part)
			}
		}
		for _, part := range []string{"No answer", "failed", "Without a real model", "no value"} {
			if strings.Contains(report, part) {
				t.Errorf("the report has %q", part)
			}
		}
		checkPlaces(t, report)
		if t.Failed() {
			t.Log(report)
		}
	})
}

// readmeSlowdown returns the factor by which the README slows the models down.
func readmeSlowdown(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`AXE_SCRIPT_SLOWDOWN=(\d+) `).FindSubmatch(text)
	if found == nil {
		t.Fatal("README.md does not set AXE_SCRIPT_SLOWDOWN")
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkPlaces checks each line of the form "- FILE:LINE: TEXT" in a report. The
// file must have the text in that line.
func checkPlaces(t *testing.T, report string) {
	t.Helper()
	places := regexp.MustCompile(`(?m)^- ([^:\n]+):(\d+): (.*?)( … \d+ lines)?$`).FindAllStringSubmatch(report, -1)
	if len(places) == 0 {
		t.Error("the report quotes no line of a file")
	}
	for _, p := range places {
		text, err := os.ReadFile(filepath.Join("../..", p[1]))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		n, err := strconv.Atoi(p[2])
		if err != nil || n < 1 || n > len(lines) || strings.TrimSpace(lines[n-1]) != p[3] {
			t.Errorf("the report quotes %q, and line %s of %s has another text", p[0], p[2], p[1])
		}
	}
}

// TestReaderAnswersAnyQuestion: the answer to an unknown question lists the
// files.
func TestReaderAnswersAnyQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := load(t).run(t.Context(), "reader", prompt.User("What is the meaning of it all?", ""))
		if err != nil || !strings.Contains(got, "\n- provider/provider.go\n") {
			t.Errorf("got %s, %v; want a list with provider/provider.go", got, err)
		}
	})
}
