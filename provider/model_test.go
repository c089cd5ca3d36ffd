package provider

import "testing"

// TestSplitModel: a model's full name is split at its first slash. A name
// without a part before or after it is an error.
func TestSplitModel(t *testing.T) {
	for _, tt := range []struct{ full, vendor, name, err string }{
		{"anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", ""},
		{"openai/org/model", "openai", "org/model", ""},
		{"ollama/hf.co/a/b:7b", "ollama", "hf.co/a/b:7b", ""},
		{"openai/ft:gpt-4o:org:custom:id", "openai", "ft:gpt-4o:org:custom:id", ""},
		{"OpenAI/x", "OpenAI", "x", ""},
		{"a//", "a", "/", ""},
		{" a/ b ", " a", " b ", ""},
		{"", "", "", `invalid model format "": expected provider/model-name`},
		{"gpt-4o", "", "", `invalid model format "gpt-4o": expected provider/model-name`},
		{"/gpt-4o", "", "", `invalid model format "/gpt-4o": empty provider`},
		{"/", "", "", `invalid model format "/": empty provider`},
		{"//x", "", "", `invalid model format "//x": empty provider`},
		{"openai/", "", "", `invalid model format "openai/": empty model name`},
		{"a\nb", "", "", `invalid model format "a\nb": expected provider/model-name`},
	} {
		vendor, name, err := SplitModel(tt.full)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if vendor != tt.vendor || name != tt.name || text != tt.err {
			t.Errorf("%q: got %q, %q, %q; want %q, %q, %q", tt.full, vendor, name, text, tt.vendor, tt.name, tt.err)
		}
	}
}
