package provider

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestNewToolCall: the arguments of a call as strings, and as the bytes that
// the model sent. Arguments that are no JSON object are an empty one.
func TestNewToolCall(t *testing.T) {
	tests := []struct {
		name    string
		raw     string
		want    map[string]string
		wantRaw string // "": the same as raw
	}{
		{"strings", `{"agent":"a","task":"do \"it\""}`, map[string]string{"agent": "a", "task": `do "it"`}, ""},
		{"white space is kept", "{ \"a\" :\n1 }", map[string]string{"a": "1"}, ""},
		{"large integers", `{"n":12345678901234567890}`, map[string]string{"n": "12345678901234567890"}, ""},
		{"floats as written", `{"n":1.50e2}`, map[string]string{"n": "1.50e2"}, ""},
		{
			"nested",
			`{"o":{"b":[1, {"c":null}]},"l":[]}`,
			map[string]string{"o": `{"b":[1, {"c":null}]}`, "l": "[]"},
			"",
		},
		{"booleans", `{"yes":true,"no":false}`, map[string]string{"yes": "true", "no": "false"}, ""},
		{"null is a missing argument", `{"context":null,"task":"null"}`, map[string]string{"task": "null"}, ""},
		{"escapes", `{"a":"\u00e9\ud83d\ude00<&>"}`, map[string]string{"a": "é😀<&>"}, ""},
		{"the last of equal keys", `{"a":"1","a":"2"}`, map[string]string{"a": "2"}, ""},
		{"empty object", `{}`, map[string]string{}, ""},
		{"nothing", ``, map[string]string{}, `{}`},
		{"null", `null`, map[string]string{}, `{}`},
		{"a list", `[1]`, map[string]string{}, `{}`},
		{"a string", `"x"`, map[string]string{}, `{}`},
		{"cut off", `{"a":"1`, map[string]string{}, `{}`},
		{"two objects", `{}{}`, map[string]string{}, `{}`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", map[string]string{"a": "\uFFFD"}, "{\"a\":\"\uFFFD\"}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := NewToolCall("id", "tool", []byte(test.raw))
			if diff := cmp.Diff(test.want, c.Arguments); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			wantRaw := test.wantRaw
			if wantRaw == "" {
				wantRaw = test.raw
			}
			if got := string(c.RawArguments()); got != wantRaw {
				t.Errorf("RawArguments() = %s, want %s", got, wantRaw)
			}
		})
	}
}

// TestNewToolCallCopiesArguments: a call does not change with the bytes that it
// was made from.
func TestNewToolCallCopiesArguments(t *testing.T) {
	raw := []byte(`{"a":"1"}`)
	c := NewToolCall("id", "tool", raw)
	copy(raw, "overwritten")
	if got, want := string(c.RawArguments()), `{"a":"1"}`; got != want {
		t.Errorf("RawArguments() = %s, want %s", got, want)
	}
}

// TestRawArgumentsWithoutRaw: a call that was made without raw bytes has its
// arguments as a JSON object, in the order of their names.
func TestRawArgumentsWithoutRaw(t *testing.T) {
	c := ToolCall{Arguments: map[string]string{"task": "x", "agent": "y"}}
	if got, want := string(c.RawArguments()), `{"agent":"y","task":"x"}`; got != want {
		t.Errorf("RawArguments() = %s, want %s", got, want)
	}
	if got := string(ToolCall{}.RawArguments()); got != "{}" {
		t.Errorf("RawArguments() = %s without arguments, want {}", got)
	}
}

// TestUnmarshalMalformedToolCall: JSON that MarshalJSON never writes is an
// error.
func TestUnmarshalMalformedToolCall(t *testing.T) {
	for _, text := range []string{`[]`, `"x"`, `{"id":1}`, `{"arguments":{"a":"b"}}`} {
		var c ToolCall
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("Unmarshal(%s) = %+v, want an error", text, c)
		}
	}
}

// TestToolCallIsStoredLosslessly: a stored call keeps the bytes of its
// arguments. Their indentation stays, though the JSON around them has another
// one.
func TestToolCallIsStoredLosslessly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(rapid.MapOf(rapid.String(), value(3)).Draw(t, "arguments"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			if err := json.Indent(&b, raw, "", "\t"); err != nil {
				t.Fatal(err)
			}
			raw = b.Bytes()
		}
		sent := Message{Role: Assistant, ToolCalls: []ToolCall{
			NewToolCall(rapid.String().Draw(t, "id"), rapid.String().Draw(t, "name"), raw),
		}}
		stored, err := json.MarshalIndent(sent, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var back Message
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, back); diff != "" {
			t.Fatalf("message (-sent +back):\n%s", diff)
		}
		if got := back.ToolCalls[0].RawArguments(); !bytes.Equal(got, raw) {
			t.Fatalf("RawArguments() = %s, want %s", got, raw)
		}
	})
}

// value draws a JSON value with at most depth lists and objects inside one
// another.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 6).Draw(t, "kind")
		if depth == 0 {
			kind = min(kind, 4)
		}
		switch kind {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int64().Draw(t, "int")
		case 3:
			return rapid.Float64().Draw(t, "float")
		case 4:
			return rapid.String().Draw(t, "string")
		case 5:
			return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.String(), value(depth-1), 0, 3).Draw(t, "object")
	})
}

// FuzzToolCall: a call with any arguments is the same call after it was stored.
func FuzzToolCall(f *testing.F) {
	for _, seed := range []string{
		`{"agent":"a","task":"b"}`, `{"n":1e400,"o":{"a":[null]}}`, "{\"\xff\":\"\xfe\"}", `null`, ``, `[`,
	} {
		f.Add("id", "name", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, id, name string, raw []byte) {
		if !utf8.ValidString(id) || !utf8.ValidString(name) {
			t.Skip("ids and names are decoded from JSON, so they are valid UTF-8")
		}
		c := NewToolCall(id, name, raw)
		if !json.Valid(c.RawArguments()) {
			t.Fatalf("RawArguments() = %q, want JSON", c.RawArguments())
		}
		stored, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back ToolCall
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Arguments, back.Arguments); diff != "" {
			t.Fatalf("arguments (-stored +back):\n%s", diff)
		}
		if !bytes.Equal(c.RawArguments(), back.RawArguments()) || back.ID != id || back.Name != name {
			t.Fatalf("stored %+v, read back %+v, want the same", c, back)
		}
	})
}
