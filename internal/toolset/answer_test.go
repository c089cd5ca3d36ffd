package toolset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
)

// trip is a question with a field of each kind.
var trip = run.Question{Key: "trip", Text: "Where to?", Schema: json.RawMessage(`{"type":"object",
	"required":["city"],"properties":{
	"city":{"type":"string","description":"Its name"},
	"days":{"type":"integer"},
	"cost":{"type":"number","title":"The most"},
	"alone":{"type":"boolean"},
	"pace":{"type":"string","enum":["slow","fast"]},
	"by":{"type":"array","items":{"type":"string"}}}}`)}

// indirect is a question with fields that say by other schemas what they are.
var indirect = run.Question{Key: "q", Schema: json.RawMessage(`{"$ref":"#/$defs/answer","$defs":{
	"size":{"type":"integer","title":"In bytes"},
	"answer":{"type":"object","required":["size"],"properties":{
	"any":null,
	"days":{"type":["integer","null"]},
	"either":{"type":["number","string"]},
	"level":{"enum":[10000000,"high"]},
	"loop":{"$ref":"#/$defs/answer/properties/loop"},
	"many":{"type":"array","items":{"oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]}},
	"nested":{"type":"array","items":{"type":"array"}},
	"object":{"type":"object"},
	"optional":{"anyOf":[{"type":"integer"},{"type":"null"}],"description":"Or none"},
	"size":{"$ref":"#/$defs/size"},
	"sizes":{"type":"array","items":{"$ref":"#/$defs/size"}},
	"titled":{"type":"string","oneOf":[{"const":"x","title":"The x"}]}}}}}`)}

// TestIndirectFields: a field may refer to a schema, allow null, or have its
// choices in the schemas of its alternatives or of its elements. A schema
// without the value of a field crashes nothing.
func TestIndirectFields(t *testing.T) {
	want := []Field{
		{Name: "any", Type: "string"},
		{Name: "days", Type: "integer"},
		{Name: "either", Type: "number or string"},
		{Name: "level", Type: "string", Choices: []string{"10000000", "high"}},
		{Name: "loop", Type: "string"},
		{Name: "many", Type: "array", Choices: []string{"a", "b"}},
		{Name: "nested", Type: "array"},
		{Name: "object", Type: "object"},
		{Name: "optional", Type: "integer", Description: "Or none"},
		{Name: "size", Type: "integer", Required: true, Description: "In bytes"},
		{Name: "sizes", Type: "array"},
		{Name: "titled", Type: "string", Choices: []string{"x"}},
	}
	if diff := cmp.Diff(want, FieldsOf(indirect)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ field, want string }{
		{"any=1", `{"any":"1"}`},
		{"days=1", `{"days":1}`},
		{"either=1", `{"either":1}`},
		{"either=one", `{"either":"one"}`},
		{"level=10000000", `{"level":10000000}`},
		{"level=high", `{"level":"high"}`},
		{"loop=1", `{"loop":"1"}`},
		{"many=a, b", `{"many":["a","b"]}`},
		{"many=", `{"many":[]}`},
		{`many=["a"]`, `{"many":["a"]}`},
		{"nested=[[1],[2]]", `{"nested":[[1],[2]]}`},
		{`object={"a":1}`, `{"object":{"a":1}}`},
		{"optional=2", `{"optional":2}`},
		{"sizes=1, 2", `{"sizes":[1,2]}`},
		{"titled=x", `{"titled":"x"}`},
		{"nested=1,2", `nested: a list of lists must be JSON like [[1,2],[3]], got "1,2"`},
		{"object=a", `object: must be a JSON object, got "a"`},
		{"sizes=1,x", `sizes: must be a number, got "x"`},
	} {
		got, err := ParseFields(indirect, []string{tt.field})
		if text := string(got); err != nil && err.Error() != tt.want || err == nil && text != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.field, got, err, tt.want)
		}
	}
}

// TestFieldsOf: people read each field with its type, its choices and a word
// about it. A question without a schema has no fields.
func TestFieldsOf(t *testing.T) {
	want := []Field{
		{Name: "alone", Type: "boolean"},
		{Name: "by", Type: "array"},
		{Name: "city", Type: "string", Required: true, Description: "Its name"},
		{Name: "cost", Type: "number", Description: "The most"},
		{Name: "days", Type: "integer"},
		{Name: "pace", Type: "string", Choices: []string{"slow", "fast"}},
	}
	if diff := cmp.Diff(want, FieldsOf(trip)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for _, schema := range []string{"", "[", "true"} {
		if got := FieldsOf(run.Question{Schema: json.RawMessage(schema)}); len(got) != 0 {
			t.Errorf("fields of the schema %q: %+v, want none", schema, got)
		}
	}
}

// TestParseFields: the schema gives each field its JSON type. Numbers keep all
// of their digits. The answer then fits the question, or an error says why not.
func TestParseFields(t *testing.T) {
	for _, tt := range []struct{ fields, want, err string }{
		{
			"city=Bern;days=12345678901234567890;cost=1.50;alone=true;pace=slow;by=foot,train",
			`{"alone":true,"by":["foot","train"],"city":"Bern","cost":1.50,` +
				`"days":12345678901234567890,"pace":"slow"}`, "",
		},
		{"city=a=b", `{"city":"a=b"}`, ""},
		{"city=", `{"city":""}`, ""},
		{"city=Bern;days=two", "", `days: must be a number, got "two"`},
		{"city=Bern;days=0x10", "", `days: must be a number, got "0x10"`},
		{"city=Bern;alone=perhaps", "", `alone: must be true or false, got "perhaps"`},
		{"city=Bern;fast", "", `"fast" must be a field like NAME=VALUE`},
		{"days=2", "", "the answer does not fit the question: "},
		{"city=Bern;days=2.5", "", "the answer does not fit the question: "},
		{"city=Bern;pace=late", "", "the answer does not fit the question: "},
	} {
		got, err := ParseFields(trip, strings.Split(tt.fields, ";"))
		if err == nil {
			err = CheckAnswer(trip, got)
		}
		if tt.err != "" {
			if !strings.HasPrefix(fmt.Sprint(err), tt.err) {
				t.Errorf("%s: %s, %v, want the error %q", tt.fields, got, err, tt.err)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.fields, got, err, tt.want)
		}
	}
	if err := CheckAnswer(trip, json.RawMessage(`[1]`)); fmt.Sprint(err) != "the answer must be a JSON object" {
		t.Errorf("a list as an answer: %v, want that it must be an object", err)
	}
	if err := CheckAnswer(run.Question{}, json.RawMessage(`{}`)); err != nil {
		t.Errorf("{} to a question without a schema: %v, want no error", err)
	}
}
