package configs

import (
	"fmt"
	"strings"

	"github.com/axebus/axe/price"
)

// DefaultCurrency is the default of the currency of prices.
const DefaultCurrency = "USD"

// maxCurrency bounds the name of a currency, in bytes.
const maxCurrency = 8

// modelPrices are the prices of a model as a file has them, in units of the
// currency for a million tokens. Nil is a price that the file does not have.
type modelPrices struct {
	table                      string
	input, cachedInput, output *float64
}

// priceTable is the table prices of a file.
type priceTable struct {
	currency string
	models   map[string]*modelPrices
}

// fields returns where each key of the table goes. The names of the models are
// keys, too.
func (t *priceTable) fields(d *document) map[string]any {
	t.currency, t.models = DefaultCurrency, map[string]*modelPrices{}
	into := map[string]any{"prices.currency": &t.currency}
	for _, key := range d.meta.Keys() {
		if len(key) < 3 || key[0] != "prices" || key[1] != "models" || t.models[key[2]] != nil {
			continue
		}
		m := &modelPrices{table: key[:3].String()}
		t.models[key[2]] = m
		into[m.table+".input"] = &m.input
		into[m.table+".cached_input"] = &m.cachedInput
		into[m.table+".output"] = &m.output
	}
	return into
}

// prices checks the table.
func (t *priceTable) prices() (price.Table, *Error) {
	if c := strings.TrimSpace(t.currency); c == "" || c != t.currency || len(c) > maxCurrency {
		return price.Table{}, invalid("prices.currency", fmt.Sprintf("must be a name like USD, got %q", t.currency))
	}
	all := price.Table{Currency: t.currency, Models: map[string]price.Model{}}
	for model, m := range t.models {
		if kind, name, ok := strings.Cut(model, "/"); !ok || kind == "" || name == "" {
			return price.Table{}, invalid(m.table, "must be a model as agents name it, such as openai/gpt-5")
		}
		var p price.Model
		for _, field := range []struct {
			key  string
			from *float64
			to   *price.Money
		}{
			{"input", m.input, &p.Input},
			{"output", m.output, &p.Output},
			{"cached_input", m.cachedInput, &p.CachedInput},
		} {
			switch {
			case field.from == nil && field.key == "cached_input":
				p.CachedInput = p.Input
			case field.from == nil:
				return price.Table{}, invalid(m.table, field.key+" is required: the price of a million tokens")
			case !(*field.from >= 0 && *field.from <= price.MaxPrice): // NaN is neither
				return price.Table{}, invalid(m.table+"."+field.key,
					fmt.Sprintf("must be 0 to %d for a million tokens, got %v", price.MaxPrice, *field.from))
			default:
				*field.to = price.FromUnits(*field.from)
			}
		}
		all.Models[model] = p
	}
	return all, nil
}
