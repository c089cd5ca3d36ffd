package builtin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// args are the arguments of a call.
type args map[string]string

// toolCall is a call of a tool in a table: its arguments, and the result or a
// part of the error.
type toolCall struct {
	name      string
	arguments args
	want      string
	wantErr   string
}

// check carries out the call and compares its result. The call has the
// arguments of tt, and all else of c.
func (tt toolCall) check(t *testing.T, tool Tool, c Call) {
	t.Helper()
	c.Arguments = tt.arguments
	got, err := use(t.Context(), tool, c)
	if tt.wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
			t.Fatalf("got %q and error %v, want error %q", got, err, tt.wantErr)
		}
		return
	}
	if err != nil || got != tt.want {
		t.Fatalf("got %q and error %v, want %q", got, err, tt.want)
	}
}

// use checks a call and carries it out, as a worker does.
func use(ctx context.Context, tool Tool, c Call) (string, error) {
	if err := tool.Check(c); err != nil {
		return "", err
	}
	return tool.Run(ctx, c)
}

// writeTree writes texts by their file names below a new directory, and returns
// the directory.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEditIsBounded: an edit that would make a file too large to be read again
// is refused, before its text is in memory, and the file stays as it is. Neither
// a plan nor a call makes the text.
func TestEditIsBounded(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	dir := writeTree(t, map[string]string{"a": strings.Repeat("a", size)})
	tool := editFile()
	for grown, wantErr := range map[int]string{
		maxFile / size: "", maxFile/size + 1: "larger than 16 MiB", 1 << 20: "larger than 16 MiB",
	} {
		c := Call{Dir: dir, Key: "T.r-1-0", Arguments: args{
			"path": "a", "old_string": "a", "new_string": strings.Repeat("b", grown), "replace_all": "true",
		}}
		_, err := tool.Plan(c)
		if (err != nil) != (wantErr != "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("plan, %d bytes for one: error %v, want %q", grown, err, wantErr)
		}
		if wantErr == "" {
			continue
		}
		if got, err := use(t.Context(), tool, c); err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%d bytes for one: got %q and error %v, want error %q", grown, got, err, wantErr)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || len(b) != size {
		t.Errorf("the file has %d bytes, error %v; want %d", len(b), err, size)
	}
}
