package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/price"
)

// Display has what a drawing needs beside the trees that it draws.
type Display struct {
	Now time.Time
	// Prices are those of models. Without any no cost is shown.
	Prices price.Table
}

// DisplayNow is a display with the present time and the user's prices.
func DisplayNow(program string) Display { return Display{time.Now(), Prices(program)} }

// Prices reads the prices of the user's config.toml. If the file is wrong,
// standard error says so, and there are no prices: a list without a connection
// to a bus has to be readable all the same.
func Prices(program string) price.Table {
	global, err := configs.DefaultGlobal()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: no costs are shown: %v\n", program, err)
		return price.Table{}
	}
	return global.Prices
}
