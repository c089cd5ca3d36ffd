package script

import "strings"

const filesHeading = "## Context Files\n"

// file is a context file in a system text.
type file struct {
	Path    string
	Lang    string
	Content string
}

// String returns the path.
func (f file) String() string { return f.Path }

// Lines returns the content's lines.
func (f file) Lines() []string { return lines(f.Content) }

// parseFiles returns the context files of a system text. The memory may follow
// them.
func parseFiles(system string) []file {
	rest, ok := strings.CutPrefix(system, filesHeading)
	if !ok {
		_, rest, ok = strings.Cut(system, "\n---\n\n"+filesHeading)
	}
	if !ok {
		return nil
	}
	var files []file
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if line == "---" {
			break // end of the files
		}
		name, ok := strings.CutPrefix(line, "### ")
		if !ok {
			continue
		}
		if f, after, ok := parseBlock(rest); ok {
			f.Path = name
			files = append(files, f)
			rest = after
		}
	}
	return files
}

// parseBlock reads a fenced block from the beginning of a text. It also returns
// the rest of the text.
func parseBlock(text string) (f file, rest string, ok bool) {
	info, body, _ := strings.Cut(text, "\n")
	lang := strings.TrimLeft(info, "`")
	fence := info[:len(info)-len(lang)]
	if len(fence) < 3 {
		return file{}, "", false
	}
	at := 0
	for line := range strings.Lines(body) {
		end := at + len(line)
		if strings.TrimSuffix(line, "\n") == fence {
			return file{Lang: lang, Content: body[:at]}, body[end:], true
		}
		at = end
	}
	return file{}, "", false
}
