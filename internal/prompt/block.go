package prompt

import (
	"path"
	"strings"
)

// File is one context file of a system text.
type File struct {
	// Path is relative to the workdir and uses slashes.
	Path string
	// Content is valid UTF-8.
	Content string
}

// blocks renders files. Each file stands under its path, in its own fence.
func blocks(files []File) string {
	texts := make([]string, len(files))
	for i, f := range files {
		fence, content := fence(f.Content), f.Content
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		texts[i] = "### " + f.Path + "\n" + fence + language(f.Path) + "\n" + content + fence
	}
	return strings.Join(texts, "\n\n")
}

// fence returns a run of backticks that is longer than any run in content. It
// has at least three.
func fence(content string) string {
	longest := 2
	for run := range strings.FieldsFuncSeq(content, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	return strings.Repeat("`", longest+1)
}

// languages are the info strings of blocks by the extension of the file.
var languages = map[string]string{
	"c": "c", "cpp": "cpp", "css": "css", "go": "go", "html": "html", "java": "java", "json": "json",
	"proto": "proto", "sql": "sql", "toml": "toml", "xml": "xml",

	"bash": "bash", "h": "c", "js": "javascript", "kt": "kotlin", "md": "markdown", "mjs": "javascript",
	"py": "python", "rb": "ruby", "rs": "rust", "sh": "bash", "ts": "typescript", "tsx": "typescript",
	"yaml": "yaml", "yml": "yaml",
}

// language returns the info string of a block. It is empty for a file name with
// an unknown extension.
func language(name string) string { return languages[strings.TrimPrefix(path.Ext(name), ".")] }
