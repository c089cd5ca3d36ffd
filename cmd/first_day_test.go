package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const scripts = "testdata/script"

var (
	// mistakeHead matches the first line of a mistake, with its number and
	// its name.
	mistakeHead = regexp.MustCompile(`^# (\d+b?)\. \S`)
	// reference matches a comment that names a line of another script.
	reference = regexp.MustCompile(`^# see (\w+\.txt): (.+)$`)

	checksExit   = regexp.MustCompile(`(?m)^(exits|settles|end) `)
	checksOutput = regexp.MustCompile(`(?m)^(stdout|stderr|says|cmp|cmpenv) `)
)

// TestFirstDay: the scripts first_day_*.txt have each of the 57 mistakes that a
// person may make on the first day, and have it once. For each they check an
// exit code and an output. A mistake may name lines of another script instead.
func TestFirstDay(t *testing.T) {
	rows := firstDay(t)
	want := []string{"1b", "11b"}
	for i := range 55 {
		want = append(want, strconv.Itoa(i+1))
	}
	for number, lines := range rows {
		if !slices.Contains(want, number) {
			t.Errorf("mistake %s: unknown number", number)
		}
		text := strings.Join(lines, "\n")
		if !checksExit.MatchString(text) || !checksOutput.MatchString(text) {
			t.Errorf("mistake %s: want a check of the exit code and one of the output:\n%s", number, text)
		}
	}
	for _, number := range want {
		if rows[number] == nil {
			t.Errorf("mistake %s is in no script first_day_*.txt", number)
		}
	}
}

// firstDay returns the lines of each mistake by its number. A line of another
// script replaces the comment that names it.
func firstDay(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scripts, "first_day_*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, file := range files {
		number := ""
		for _, line := range scriptLines(t, file) {
			if m := mistakeHead.FindStringSubmatch(line); m != nil {
				number = m[1]
				if rows[number] != nil {
					t.Errorf("%s: mistake %s is there twice", file, number)
				}
			}
			rows[number] = append(rows[number], referred(t, line))
		}
	}
	delete(rows, "") // the head of a script
	return rows
}

// referred returns the line of another script that a comment names, and checks
// that the script has the line. It returns any other line as it is.
func referred(t *testing.T, line string) string {
	t.Helper()
	m := reference.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	if !slices.Contains(scriptLines(t, filepath.Join(scripts, m[1])), m[2]) {
		t.Errorf("%s has no line %s", m[1], m[2])
	}
	return m[2]
}

// scriptLines returns the commands and comments of a script, without the files
// that follow them.
func scriptLines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), "\n-- ")
	return strings.Split(text, "\n")
}
