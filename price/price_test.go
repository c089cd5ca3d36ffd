package price

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/axebus/axe/provider"
)

// table has the prices of two models.
var table = Table{Currency: "USD", Models: map[string]Model{
	"a/large": {Input: FromUnits(3), CachedInput: FromUnits(.3), Output: FromUnits(15)},
	"a/small": {Input: FromUnits(.05), CachedInput: FromUnits(.05), Output: FromUnits(.4)},
}}

func TestCost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		used map[string]provider.Usage
		want string
		line string
	}{
		"input, cached input and output": {
			map[string]provider.Usage{
				"a/large": {InputTokens: 1_000_000, CachedTokens: 400_000, OutputTokens: 100_000},
			},
			"3.42 USD", `{"cost":3.42,"currency":"USD"}`,
		},
		"two models": {
			map[string]provider.Usage{"a/large": {InputTokens: 100}, "a/small": {OutputTokens: 1000}},
			"0.00070 USD", `{"cost":0.0007,"currency":"USD"}`,
		},
		"a model without a price": {
			map[string]provider.Usage{"a/large": {InputTokens: 100_000}, "b/other": {OutputTokens: 1}},
			"0.30+ USD", `{"cost":0.3,"currency":"USD","cost_partial":true}`,
		},
		"a model without a price and without tokens": {
			map[string]provider.Usage{"a/large": {InputTokens: 100_000}, "b/other": {}},
			"0.30 USD", `{"cost":0.3,"currency":"USD"}`,
		},
		"no model with a price": {map[string]provider.Usage{"b/other": {OutputTokens: 1}}, "", `{}`},
		"nothing":               {nil, "", `{}`},
		"more than any account has": {
			map[string]provider.Usage{"a/large": {InputTokens: math.MaxInt, OutputTokens: math.MaxInt}},
			"9223372036.85 USD", `{"cost":9223372036.854775807,"currency":"USD"}`,
		},
		"counts that no provider sends": {
			map[string]provider.Usage{"a/large": {InputTokens: -5, CachedTokens: 1 << 40, OutputTokens: -1}},
			"0.00 USD", `{"cost":0,"currency":"USD"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := table.Cost(test.used)
			if got := c.Text(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			line, err := json.Marshal(c.Line())
			if err != nil || string(line) != test.line {
				t.Errorf("got %s, %v, want %s", line, err, test.line)
			}
		})
	}
}

// TestCostOfParts: the cost of a sum is that of its parts, but for a billionth
// that each part may lose.
func TestCostOfParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var sum provider.Usage
		var parts Money
		n := rapid.IntRange(1, 20).Draw(rt, "parts")
		for range n {
			u := provider.Usage{
				InputTokens:  rapid.IntRange(0, 1_000_000).Draw(rt, "input"),
				OutputTokens: rapid.IntRange(0, 1000).Draw(rt, "output"),
			}
			u.CachedTokens = rapid.IntRange(0, u.InputTokens).Draw(rt, "cached")
			sum = sum.Add(u)
			parts = parts.Plus(table.Cost(map[string]provider.Usage{"a/large": u}).Money)
		}
		whole := table.Cost(map[string]provider.Usage{"a/large": sum}).Money
		if lost := whole - parts; lost < 0 || lost > Money(3*n) {
			rt.Fatalf("the sum costs %d, its parts %d", whole, parts)
		}
	})
}

func TestMoneyText(t *testing.T) {
	t.Parallel()
	for m, want := range map[Money]string{
		0: "0.00", 1: "0.000000001", FromUnits(.00042): "0.00042", FromUnits(.0042137): "0.0042",
		FromUnits(.04251): "0.043", FromUnits(.1): "0.10", FromUnits(.999): "1.00", FromUnits(1234.5): "1234.50",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(m), got, want)
		}
	}
}

// TestMoneyJSON: an amount is read as it was written.
func TestMoneyJSON(t *testing.T) {
	t.Parallel()
	check := func(t interface{ Fatalf(string, ...any) }, m Money) {
		text, err := json.Marshal(m)
		var got Money
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got != m {
			t.Fatalf("%d is written as %s and read as %d, %v", int64(m), text, int64(got), err)
		}
	}
	for _, m := range []Money{0, 1, -1, -unit, math.MaxInt64, math.MinInt64} {
		check(t, m)
	}
	rapid.Check(t, func(rt *rapid.T) { check(rt, Money(rapid.Int64().Draw(rt, "amount"))) })
	for text, want := range map[string]Money{
		"2e-9": 2, "1e300": math.MaxInt64, "-1e300": math.MinInt64, "0.0000000015": 2, "null": 0,
		"99999999999999999999": math.MaxInt64,
	} {
		var got Money
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %d, %v; want %d", text, int64(got), err, int64(want))
		}
	}
	if err := json.Unmarshal([]byte(`"1"`), new(Money)); err == nil {
		t.Error("a text is read as an amount")
	}
}

// TestPlus: a sum is exact or, where no Money can be it, the nearest one.
func TestPlus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, want Money }{
		{1, 2, 3},
		{1, -2, -1},
		{-1, -2, -3},
		{math.MaxInt64, -1, math.MaxInt64 - 1},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, 1, math.MinInt64 + 1},
		{math.MinInt64, math.MaxInt64, -1},
	} {
		if got := test.a.Plus(test.b); got != test.want {
			t.Errorf("%d and %d are %d, want %d", int64(test.a), int64(test.b), int64(got), int64(test.want))
		}
		if got := test.b.Plus(test.a); got != test.want {
			t.Errorf("%d and %d are %d, want %d", int64(test.b), int64(test.a), int64(got), int64(test.want))
		}
	}
}
