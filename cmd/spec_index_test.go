package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// specified counts the specification's requirements by section, the parts of
// two requirements, the rows by table, and the exit codes.
var specified = map[string]int{
	"req-1": 9, "req-2": 7, "req-3": 7, "req-4": 6, "req-5": 7, "req-6": 4, "req-7": 5, "req-8": 8, "req-9": 4,
	"req-10": 4, "req-11": 5, "req-12": 3, "req-13": 5, "req-7.3": 15, "req-13.2": 8,
	"row-5.1": 7, "row-5.2": 11, "row-5.3": 5, "row-5.4": 6, "row-5.5": 6, "row-5.6": 7, "row-5.7": 7,
	"exit": 4,
}

// named lists the tests that section 7 names, in its order.
var named = map[string]string{
	"test-7.2": `TestTool_ZeroValue TestToolCall_ZeroValue TestToolResult_ZeroValue
			TestRequest_NilTools_BackwardsCompatible
		TestResponse_NilToolCalls_BackwardsCompatible TestMessage_ToolCallsField TestMessage_ToolResultsField`,
	"test-7.3": `TestAnthropic_Send_WithTools TestAnthropic_Send_WithoutTools TestAnthropic_Send_ToolCallResponse
		TestAnthropic_Send_ToolCallWithText TestAnthropic_Send_ToolCallNoText TestAnthropic_Send_ToolResultMessage
		TestAnthropic_Send_AssistantToolCallMessage TestAnthropic_Send_ToolsStopReason`,
	"test-7.4": `TestOpenAI_Send_WithTools TestOpenAI_Send_WithoutTools TestOpenAI_Send_ToolCallResponse
			TestOpenAI_Send_ToolCallNullContent
		TestOpenAI_Send_ToolResultMessage TestOpenAI_Send_AssistantToolCallMessage
			TestOpenAI_Send_InvalidToolCallArguments
		TestOpenAI_Send_ToolsStopReason`,
	"test-7.5": `TestOllama_Send_WithTools TestOllama_Send_WithoutTools TestOllama_Send_ToolCallResponse
			TestOllama_Send_NoToolCallsWithTools
		TestOllama_Send_ToolResultMessage`,
	"test-7.6": `TestValidate_MaxDepthTooHigh TestValidate_MaxDepthNegative TestValidate_TimeoutNegative
			TestValidate_MaxDepthValid
		TestValidate_SubAgentsConfigDefaults TestLoad_SubAgentsConfig TestScaffold_IncludesSubAgentsConfig`,
	"test-7.7": `TestCallAgentTool_Definition TestCallAgentTool_EmptyAgents TestExecuteCallAgent_Success
			TestExecuteCallAgent_AgentNotAllowed
		TestExecuteCallAgent_EmptyAgentName TestExecuteCallAgent_EmptyTask TestExecuteCallAgent_DepthLimitReached
		TestExecuteCallAgent_AgentNotFound TestExecuteCallAgent_APIError TestExecuteCallAgent_Timeout
			TestExecuteCallAgent_WithContext
		TestExecuteCallAgent_WithoutContext`,
	"test-7.8": `TestRun_SubAgentToolInjection TestRun_NoSubAgents_NoTools TestRun_ConversationLoop_ToolCall
			TestRun_ConversationLoop_MaxTurns
		TestRun_SubAgent_Error_PropagatesAsToolResult TestRun_DryRun_ShowsSubAgents TestRun_DryRun_NoSubAgents
			TestRun_JSON_IncludesToolCalls
		TestRun_Verbose_ConversationTurns TestRun_ParallelToolCalls TestRun_SequentialToolCalls`,
}

// ids returns every id that the index must have, with the test that it must
// name; "" allows any test.
func ids() map[string]string {
	all := map[string]string{}
	for group, n := range specified {
		for i := range n {
			if group == "exit" {
				all[fmt.Sprintf("exit-%d", i)] = ""
			} else {
				all[fmt.Sprintf("%s.%d", group, i+1)] = ""
			}
		}
	}
	for group, names := range named {
		for i, name := range strings.Fields(names) {
			all[fmt.Sprintf("%s.%d", group, i+1)] = name
		}
	}
	return all
}

// TestSpecIndex checks testdata/spec.txt: every requirement, row, named test
// and exit code has a line, and each line has the id of one of them. The test
// that a line names exists. The line of a named test names that test.
func TestSpecIndex(t *testing.T) {
	index, err := os.ReadFile("testdata/spec.txt")
	if err != nil {
		t.Fatal(err)
	}
	missing, all := ids(), ids()
	byDir := map[string]proofs{}
	for line := range strings.Lines(string(index)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 3 {
			t.Errorf("%q: want an id, a directory and a test", line)
			continue
		}
		id, dir := fields[0], fields[1]
		_, proof, _ := strings.Cut(line, dir+" ")
		proof = strings.TrimSpace(proof)
		want, ok := all[id]
		if !ok {
			t.Errorf("%s: the specification has no such id", id)
		}
		delete(missing, id)
		if want != "" && proof != want {
			t.Errorf("%s: got the test %s, want %s", id, proof, want)
		}
		if _, ok := byDir[dir]; !ok {
			byDir[dir] = proofsIn(t, filepath.Join("..", filepath.FromSlash(dir)))
		}
		if err := byDir[dir].have(proof); err != nil {
			t.Errorf("%s: %s: %v", id, dir, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s is not in the index", id)
	}
}

// proofs holds the names and strings of a package's tests.
type proofs struct {
	dir   string
	tests map[string]bool
	// words holds all string literals, among them the names of subtests.
	words map[string]bool
}

// proofsIn parses the tests of a directory.
func proofsIn(t *testing.T, dir string) proofs {
	t.Helper()
	p := proofs{dir, map[string]bool{}, map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				p.tests[n.Name.Name] = n.Recv == nil
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					p.words[text] = true
				}
			}
			return true
		})
	}
	return p
}

// have returns an error if a test, a subtest after a slash, or a script does
// not exist.
func (p proofs) have(proof string) error {
	if filepath.Ext(proof) == ".txt" {
		_, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(proof)))
		return err
	}
	test, sub, _ := strings.Cut(proof, "/")
	switch {
	case !strings.HasPrefix(test, "Test") || !p.tests[test]:
		return fmt.Errorf("there is no test %s", test)
	case sub != "" && !p.words[sub]:
		return fmt.Errorf("%s has no subtest %q", test, sub)
	}
	return nil
}
