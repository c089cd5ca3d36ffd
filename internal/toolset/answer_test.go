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
