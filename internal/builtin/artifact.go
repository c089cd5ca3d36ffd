package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/provider"
)

// Artifacts are the files of the tree that a call belongs to.
type Artifacts interface {
	// Copy writes the bytes of the artifact with a name to w, at least the
	// first 512 together. An error of w ends it, and is returned as it is,
	// with the artifact. A name without an artifact is an error for the
	// model.
	Copy(ctx context.Context, w io.Writer, name string) (run.Artifact, error)
	// Write stores an artifact under a name. A name that has other bytes is
	// an error for the model.
	Write(ctx context.Context, name string, b []byte) error
}

func readArtifact() Tool {
	return Tool{
		Definition: define("read_artifact",
			"Read lines of an artifact: a file that a tool or an agent of this task has stored under a name. "+
				"Returns line-numbered output in the format 'N: content' for each line.",
			map[string]provider.ToolParameter{
				"name":   required("The name of the artifact."),
				"offset": optional("1-indexed line number to start reading from. Defaults to 1."),
				"limit":  optional("Maximum number of lines to return. Defaults to 2000."),
			}),
		Effect: run.ToolReads,
		Run: func(ctx context.Context, c Call) (string, error) {
			name := c.Arguments["name"]
			offset, offsetErr := positive(c, "offset", 1)
			limit, limitErr := positive(c, "limit", defaultLines)
			if err := errors.Join(run.CheckArtifactName(name), offsetErr, limitErr); err != nil {
				return "", err
			}
			l := &lines{what: "artifact", offset: offset, limit: limit, room: c.MaxResult - lineNotes, line: 1}
			a, err := c.Artifacts.Copy(ctx, l, name)
			switch {
			case errors.Is(err, errBinary):
				return "", fmt.Errorf("binary artifact: %d bytes of the type %q", a.Size, a.MediaType)
			case err != nil && !errors.Is(err, errEnough):
				return "", err
			}
			return l.result()
		},
	}
}

func writeArtifact() Tool {
	return Tool{
		Definition: define("write_artifact",
			"Store a text as an artifact: a file of this task that every agent of the task can read by its name, "+
				"and that the person who gave the task receives. A name cannot be used for another content later.",
			map[string]provider.ToolParameter{
				"name":    required("A file name without a directory, for example report.md."),
				"content": required("The content of the artifact."),
			}),
		Effect: run.ToolIdempotent,
		Run: func(ctx context.Context, c Call) (string, error) {
			name, content := c.Arguments["name"], c.Arguments["content"]
			if err := run.CheckArtifactName(name); err != nil {
				return "", err
			}
			if err := c.Artifacts.Write(ctx, name, []byte(content)); err != nil {
				return "", err
			}
			return fmt.Sprintf("wrote %d bytes to artifact %s", len(content), name), nil
		},
	}
}

// The ends of the reading of lines.
var (
	errEnough = errors.New("enough lines were read")
	errBinary = errors.New("binary")
)

// lineNotes is the room for the note at the end of lines that were cut, in
// bytes.
const lineNotes = 200

// lines takes the bytes of a text and keeps a part of its lines, with their
// numbers. It holds no more than the part. Its Write ends with errEnough.
type lines struct {
	// what names the text in an error: a file or an artifact.
	what string
	// offset is the number of the first line that is kept, from 1. Limit is
	// the most lines, and room the most bytes.
	offset, limit, room int

	out strings.Builder
	// line is the number of the line that is being read.
	line int
	// begun says that a part of the line was read.
	begun bool
	// read says that something was read.
	read bool
	// cut says that room was too small for the line that is being read.
	cut bool
}

// Write implements io.Writer. The first bytes tell whether the text is binary.
func (l *lines) Write(p []byte) (int, error) {
	if !l.read && bytes.IndexByte(p[:min(len(p), 512)], 0) >= 0 {
		return 0, errBinary
	}
	l.read = true
	for rest := p; len(rest) > 0; {
		if l.line-l.offset >= l.limit {
			return 0, errEnough
		}
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		if l.line >= l.offset && !l.keep(part) {
			return 0, errEnough
		}
		l.begun = !ended
		if ended {
			l.line++
		}
		rest = after
	}
	return len(p), nil
}

// keep adds a part of the current line. It returns false if there is no room
// for it. A line that does not fit is left out, unless it is the first one.
func (l *lines) keep(part []byte) bool {
	if !l.begun {
		if l.line > l.offset {
			l.out.WriteByte('\n')
		}
		fmt.Fprintf(&l.out, "%d: ", l.line)
	}
	l.out.Write(part)
	if l.out.Len() <= l.room {
		return true
	}
	l.cut = true
	kept := l.out.String()
	l.out.Reset()
	if l.line > l.offset {
		kept = kept[:strings.LastIndexByte(kept, '\n')]
	} else {
		kept = text.Head(kept, l.room)
	}
	l.out.WriteString(kept)
	return false
}

// result returns the lines that were kept. Room that was too small for all of
// them is told.
func (l *lines) result() (string, error) {
	last := l.line
	if !l.begun {
		last--
	}
	out := strings.ToValidUTF8(l.out.String(), "\uFFFD")
	switch {
	case l.cut && l.line > l.offset:
		return fmt.Sprintf("%s\n... [cut here: go on with offset %d]", out, l.line), nil
	case l.cut:
		const note = "%s\n... [the rest of this line is left out: the next one has offset %d]"
		return fmt.Sprintf(note, out, l.line+1), nil
	case l.offset > max(last, 1):
		return "", fmt.Errorf("offset %d exceeds %s length of %d lines", l.offset, l.what, last)
	}
	return out, nil
}
