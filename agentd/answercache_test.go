package agentd

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestAnswersAreAsGiven: an answer is kept as the model gave it, though the
// worker changes it afterwards. Recall returns it once. An answer that no
// worker asks for is dropped after two periods.
func TestAnswersAreAsGiven(t *testing.T) {
	given := func() *provider.Response {
		return &provider.Response{
			Content: "/slash check-mail", StopReason: "stop", Usage: provider.Usage{InputTokens: 3, OutputTokens: 4},
			ToolCalls: []provider.ToolCall{
				{ID: "1", Name: "call_agent", Arguments: map[string]string{"task": "x"}, Raw: []byte(`{"task":"x"}`)},
			},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		// The key goes to Recall as a text, which has to keep the
		// highest bits.
		a, key := NewAnswers(), answerKey{turn: 1 << 63, request: 1<<63 + 1}
		resp := given()
		a.remember(key, resp)
		resp.ToolCalls[0].Name = "changed"
		resp.ToolCalls = append(resp.ToolCalls, provider.ToolCall{Name: "check_mail"})
		var got provider.Response
		if err := json.Unmarshal(a.Recall(key.String()), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(given(), &got); diff != "" {
			t.Errorf("Recall does not return the answer that the model gave (-want +got):\n%s", diff)
		}
		if b := a.Recall(key.String()); b != nil {
			t.Errorf("the second Recall returns %s, want nothing", b)
		}
		a.remember(key, given())
		time.Sleep(2 * answersPeriod)
		synctest.Wait()
		if b := a.Recall(key.String()); b != nil {
			t.Errorf("Recall returns %s after two periods, want nothing", b)
		}
	})
}

// TestAnswerKey: two requests have the same key only if they are for the same
// turn of the same run, with the same system text and the same messages.
func TestAnswerKey(t *testing.T) {
	agent, err := subjects.ParseAgent("reader")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	root := subjects.Run{Tree: tree, Agent: agent, Path: subjects.Root}
	child := root
	child.Path = root.Path.Child(1, 0)
	message := func(role provider.Role, text string) provider.Message {
		return provider.Message{Role: role, Content: text}
	}
	request := func(messages ...provider.Message) *provider.Request {
		return &provider.Request{Model: "m", System: "s", Messages: messages}
	}
	called := provider.Message{Role: provider.Assistant, ToolCalls: []provider.ToolCall{{ID: "1", Name: "n"}}}
	result := provider.Message{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: "1", Content: "r"}}}
	// The requests differ in the turn, the run, and the system text, and in
	// the number, roles, texts, calls and results of their messages.
	keys := []answerKey{
		newAnswerKey(root, 1, request(message(provider.User, "ab"))),
		newAnswerKey(root, 2, request(message(provider.User, "ab"))),
		newAnswerKey(child, 1, request(message(provider.User, "ab"))),
		newAnswerKey(root, 1, request(message(provider.User, "ba"))),
		newAnswerKey(root, 1, request(message(provider.User, "a"), message(provider.User, "b"))),
		newAnswerKey(root, 1, request(message(provider.Assistant, "ab"))),
		newAnswerKey(root, 1, request(message(provider.User, "ab"), called)),
		newAnswerKey(root, 1, request(message(provider.User, "ab"), called, result)),
		newAnswerKey(root, 1, &provider.Request{Model: "m", Messages: request(message(provider.User, "ab")).Messages}),
	}
	for i, key := range keys {
		if slices.Index(keys, key) != i {
			t.Errorf("requests %d and %d have the same key %s", slices.Index(keys, key), i, key)
		}
	}
	if again := newAnswerKey(root, 1, request(message(provider.User, "ab"))); again != keys[0] {
		t.Errorf("the same request has the keys %s and %s, want one key", keys[0], again)
	}
}

// BenchmarkRememberAnswer measures the cost of remembering the answer of a
// leaf.
func BenchmarkRememberAnswer(b *testing.B) {
	a := NewAnswers()
	r := subjects.Run{Path: subjects.Root}
	task := provider.Message{Role: provider.User, Content: "go"}
	req := &provider.Request{Model: "m", System: "s", Messages: []provider.Message{task}}
	turn := 0
	for b.Loop() {
		turn++
		a.remember(newAnswerKey(r, turn, req), &provider.Response{Content: "done"})
	}
}
