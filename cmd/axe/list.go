package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/axebus/axe/cmd/internal/cli"
)

// list prints values as JSON, one object a line, or as a table.
type list[T any] struct {
	// title has the titles of the columns, with tabs between them.
	title string
	// row returns the cells of a value, with tabs between them.
	row func(T) string
}

// print prints the values. A table without a row has no titles either.
func (l list[T]) print(stdout io.Writer, format cli.Output, all []T) error {
	if format.JSON() {
		return printEach(stdout, all)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if len(all) > 0 {
		fmt.Fprintln(table, l.title)
	}
	for _, a := range all {
		fmt.Fprintln(table, l.row(a))
	}
	return table.Flush()
}

// printLines prints a line for each value.
func printLines[T any](stdout io.Writer, all []T, line func(T) string) error {
	for _, a := range all {
		if _, err := fmt.Fprintln(stdout, cli.Printable(line(a))); err != nil {
			return err
		}
	}
	return nil
}

// printEach prints values as JSON, one object a line.
func printEach[T any](stdout io.Writer, all []T) error {
	for _, a := range all {
		if err := cli.PrintJSON(stdout, a); err != nil {
			return err
		}
	}
	return nil
}
