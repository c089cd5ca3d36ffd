// Package price computes the cost of tokens in money. Prices are the user's own
// (the table prices of config.toml). The reader of a tree applies them: no
// message of a tree has a price or a cost.
//
//	table.Cost(map[string]provider.Usage{"openai/gpt-5": usage}).Text() // "0.042 USD"
package price

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/axebus/axe/provider"
)

// Money is an amount in billionths of a currency's unit.
type Money int64

// unit is one unit of a currency.
const unit Money = 1e9

// decimals is the number of decimals of a unit.
const decimals = 9

// MaxPrice is the largest price of a million tokens, in units of the currency.
const MaxPrice = 1_000_000

// FromUnits rounds an amount in units of a currency. An amount that no Money
// can be becomes the largest or the smallest one.
func FromUnits(units float64) Money {
	switch amount := math.Round(units * float64(unit)); {
	case amount >= math.MaxInt64:
		return math.MaxInt64
	case amount <= math.MinInt64:
		return math.MinInt64
	default:
		return Money(amount)
	}
}

// Plus returns the sum of two amounts. A sum that no Money can be becomes the
// largest or the smallest one.
func (m Money) Plus(n Money) Money {
	switch {
	case n > 0 && m > math.MaxInt64-n:
		return math.MaxInt64
	case n < 0 && m < math.MinInt64-n:
		return math.MinInt64
	}
	return m + n
}

// Units returns the amount in units of the currency.
func (m Money) Units() float64 { return float64(m) / float64(unit) }

// String formats an amount for people: two decimals or, below a tenth of a
// unit, two significant digits.
func (m Money) String() string {
	shown := 2
	for edge := unit / 10; 0 < m && m < edge && shown < decimals; edge /= 10 {
		shown++
	}
	return strconv.FormatFloat(m.Units(), 'f', shown, 64)
}

// MarshalJSON writes the exact amount in units, as a number.
func (m Money) MarshalJSON() ([]byte, error) {
	text := big.NewRat(int64(m), int64(unit)).FloatString(decimals)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalJSON reads an amount in units: exactly what MarshalJSON writes, and
// any other number rounded to a billionth.
func (m *Money) UnmarshalJSON(b []byte) error {
	var units float64
	if err := json.Unmarshal(b, &units); err != nil {
		return err
	}
	*m = FromUnits(units)
	if bytes.ContainsAny(b, "eE") {
		return nil
	}
	if exact, ok := new(big.Rat).SetString(string(b)); ok {
		text := strings.Replace(exact.FloatString(decimals), ".", "", 1)
		amount, _ := strconv.ParseInt(text, 10, 64) // or the nearest one
		*m = Money(amount)
	}
	return nil
}

// Model has the prices of a million tokens of one model.
type Model struct {
	Input Money
	// CachedInput is the price of input that the provider has read from a
	// prompt cache.
	CachedInput Money
	Output      Money
}

// cost is the cost of tokens.
func (m Model) cost(u provider.Usage) Money {
	cached := min(max(0, u.CachedTokens), max(0, u.InputTokens))
	return millionths(u.InputTokens-cached, m.Input).
		Plus(millionths(cached, m.CachedInput)).
		Plus(millionths(u.OutputTokens, m.Output))
}

// millionths returns n millionths of an amount, at most the largest Money.
func millionths(n int, m Money) Money {
	if n <= 0 || m <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(m))
	if hi >= 1e6 {
		return math.MaxInt64
	}
	whole, _ := bits.Div64(hi, lo, 1e6)
	return Money(min(whole, math.MaxInt64))
}

// Table has the prices of models, by their names, such as openai/gpt-5. The
// zero value has no prices, and no cost is shown.
type Table struct {
	// Currency is the name of the currency of all prices, such as USD.
	Currency string
	Models   map[string]Model
}

// IsZero reports whether the table has no prices.
func (t Table) IsZero() bool { return len(t.Models) == 0 }

// Cost is the cost of tokens of some models.
type Cost struct {
	Money
	Currency string
	// Priced says that some of the tokens have a price, and Partial that
	// others have none.
	Priced, Partial bool
}

// Cost returns the cost of tokens by model.
func (t Table) Cost(used map[string]provider.Usage) Cost {
	c := Cost{Currency: t.Currency}
	for model, u := range used {
		if u == (provider.Usage{}) {
			continue
		}
		m, priced := t.Models[model]
		c.Money = c.Plus(m.cost(u))
		c.Priced, c.Partial = c.Priced || priced, c.Partial || !priced
	}
	c.Partial = c.Partial && c.Priced
	return c
}

// Amount formats a cost without its currency: "-" if nothing has a price. A +
// at its end stands for the tokens that have none.
func (c Cost) Amount() string {
	switch {
	case !c.Priced:
		return "-"
	case c.Partial:
		return c.String() + "+"
	}
	return c.String()
}

// Text formats a cost with its currency, "" if nothing has a price.
func (c Cost) Text() string {
	if !c.Priced {
		return ""
	}
	return c.Amount() + " " + c.Currency
}

// Line is a cost in a JSON object. Nothing of it is there if nothing has a
// price.
type Line struct {
	// Cost is in units of the currency.
	Cost     *Money `json:"cost,omitempty"`
	Currency string `json:"currency,omitzero"`
	// Partial says that some tokens have no price, and are not in Cost.
	Partial bool `json:"cost_partial,omitzero"`
}

// Line returns the cost for a JSON object.
func (c Cost) Line() Line {
	if !c.Priced {
		return Line{}
	}
	return Line{&c.Money, c.Currency, c.Partial}
}
