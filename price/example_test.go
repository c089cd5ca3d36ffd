package price_test

import (
	"fmt"

	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// A + stands for tokens of models without a price.
func Example() {
	table := price.Table{Currency: "USD", Models: map[string]price.Model{
		"openai/gpt-5": {Input: price.FromUnits(1.25), Output: price.FromUnits(10)},
	}}
	used := map[string]provider.Usage{"openai/gpt-5": {InputTokens: 20_000, OutputTokens: 1_500}}
	fmt.Println(table.Cost(used).Text())
	used["ollama/llama3.1"] = provider.Usage{OutputTokens: 300}
	fmt.Println(table.Cost(used).Text())
	// Output:
	// 0.040 USD
	// 0.040+ USD
}
