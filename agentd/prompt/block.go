package prompt

import (
	"path"
	"strings"
)

// File is one context file as it goes into the system text.
type File struct {
	Path    string // relative to the workdir, with slashes
	Content string // valid UTF-8
}

// blocks renders files, each under its path in a fence of its own.
func blocks(files []File) string {
	texts := make([]string, len(files))
	for i, f := range files {
		texts[i] = f.block()
	}
	return strings.Join(texts, "\n\n")
}

func (f File) block() string {
	fence, content := fence(f.Content), f.Content
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	return "### " + f.Path + "\n" + fence + language(f.Path) + "\n" + content + fence
}

// fence is a run of backticks longer than any in content, and at least three.
func fence(content string) string {
	longest, run := 2, 0
	for i := range len(content) {
		if content[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return strings.Repeat("`", longest+1)
}

// language is the info string of a block, empty when the name does not tell.
func language(name string) string {
	ext := strings.TrimPrefix(path.Ext(name), ".")
	switch ext {
	case "c", "cpp", "css", "go", "html", "java", "json", "proto", "sql", "toml", "xml":
		return ext
	case "h":
		return "c"
	case "js", "mjs":
		return "javascript"
	case "kt":
		return "kotlin"
	case "md":
		return "markdown"
	case "py":
		return "python"
	case "rb":
		return "ruby"
	case "rs":
		return "rust"
	case "sh", "bash":
		return "bash"
	case "ts", "tsx":
		return "typescript"
	case "yaml", "yml":
		return "yaml"
	default:
		return ""
	}
}
