package agentd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/subjects"
)

// artifacts are the artifacts of a tree, as a tool run sees them. It stores
// each before the outcome that names it. A worker that dies between the two
// leaves an object that no outcome names.
type artifacts struct {
	tree bus.Artifacts
	run  subjects.Run
	// kept are those that the run has stored.
	kept []run.Artifact
}

func newArtifacts(c *bus.Conn, r subjects.Run) *artifacts {
	return &artifacts{tree: bus.ArtifactsOf(c, r.Tree), run: r}
}

// Copy implements builtin.Artifacts.
func (a *artifacts) Copy(ctx context.Context, w io.Writer, name string) (run.Artifact, error) {
	found, err := a.tree.Find(ctx, name)
	switch {
	case errors.Is(err, bus.ErrNoArtifact):
		err = fmt.Errorf("no artifact has the name %q", name)
	case err == nil:
		err = a.tree.Copy(ctx, w, found)
	}
	return described(found), err
}

// Write implements builtin.Artifacts. The same bytes under the same name are no
// error: another attempt at the call, or another call, has stored them.
func (a *artifacts) Write(ctx context.Context, name string, b []byte) error {
	err := a.store(ctx, bus.Artifact{Name: name, MediaType: mediaType(b)}, b)
	if taken, ok := errors.AsType[*bus.ArtifactTakenError](err); ok {
		return fmt.Errorf("artifact %q exists with another content (%d bytes, written by %s): choose another name",
			name, taken.Size, taken.Path)
	}
	return err
}

// store stores an artifact, and notes that the run has it.
func (a *artifacts) store(ctx context.Context, artifact bus.Artifact, b []byte) error {
	artifact.Path = a.run.Path.String()
	stored, err := a.tree.Store(ctx, artifact, b)
	if err == nil {
		a.kept = append(a.kept, described(stored))
	}
	return err
}

// maxNames bounds the names that storeNew tries.
const maxNames = 100

// storeNew stores bytes under the run's own name: its path and a suffix such as
// ".txt". An earlier attempt at the call may have other bytes under that name,
// and its worker may have died before the outcome, or may still be at work. The
// name then gets a number.
func (a *artifacts) storeNew(ctx context.Context, suffix, mediaType string, b []byte) (run.Artifact, error) {
	ext := path.Ext(suffix)
	stem := ownStem(a.run.Path) + strings.TrimSuffix(suffix, ext)
	name := stem + ext
	for n := 2; ; n++ {
		err := a.store(ctx, bus.Artifact{Name: name, MediaType: mediaType}, b)
		if err == nil {
			return a.kept[len(a.kept)-1], nil
		}
		if _, taken := errors.AsType[*bus.ArtifactTakenError](err); !taken || n > maxNames {
			return run.Artifact{}, err
		}
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
}

// maxStem bounds the part of a name that is the path of a run, in bytes.
const maxStem = 60

// ownStem is the beginning of the names that a run gives its artifacts. It is
// the path of the run, or its digest if the path is too long for a file name.
func ownStem(p subjects.Path) string {
	if s := p.String(); len(s) <= maxStem {
		return s
	}
	sum := sha256.Sum256([]byte(p.String()))
	return "r-" + hex.EncodeToString(sum[:8])
}

// storeFile stores a part of a tool's result that is no text. The name of the
// artifact begins with the path of the run, so that no other result of the tree
// has it.
func (a *artifacts) storeFile(ctx context.Context, f toolset.File) (run.Artifact, error) {
	return a.storeNew(ctx, "-"+fileName(f.Name), f.MediaType, f.Bytes)
}

// maxFileName bounds the part of an artifact's name that comes from a tool.
const maxFileName = 30

// fileName returns a name with "_" in the place of each character that the name
// of an artifact cannot have.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if run.CheckArtifactName("x"+string(r)+"x") != nil {
			return '_'
		}
		return r
	}, name)
	ext := text.Head(path.Ext(name), maxFileName/2)
	name = strings.Trim(text.Head(strings.TrimSuffix(name, path.Ext(name)), maxFileName-len(ext))+ext, ". ")
	if name == "" {
		return "file"
	}
	return name
}

// described returns an artifact as an outcome names it.
func described(a bus.Artifact) run.Artifact {
	return run.Artifact{Name: a.Name, MediaType: a.MediaType, Size: a.Size, Digest: a.Digest, Path: a.Path}
}

// mediaType returns the type of bytes that came without one.
func mediaType(b []byte) string {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// keepLarge stores a text of an outcome that is larger than the agent's models
// are to read, and puts an excerpt in its place. The outcome names every
// artifact of the run.
func (r *toolRun) keepLarge(ctx context.Context, o run.Outcome) run.Outcome {
	for _, t := range []*string{&o.Result, &o.Error} {
		if len(*t) > r.maxResult {
			*t = r.shorten(ctx, *t)
		}
	}
	o.Artifacts = r.artifacts.kept
	return o
}

// shorten stores a text as an artifact. It returns the beginning, a note, and
// the end. If the text cannot be stored, the note says that it is lost. The
// tool has been called, and its outcome has to be told all the same.
func (r *toolRun) shorten(ctx context.Context, whole string) string {
	x := r.x
	limit := min(max(x.clock().Until(x.deadline())/2, time.Second), maxStoreTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not stored within %s", limit))
	defer cancel()
	stored, err := r.artifacts.storeNew(ctx, ".txt", mediaType([]byte(whole)), []byte(whole))
	e := cutMiddle(whole, r.maxResult-noteRoom)
	if err != nil {
		return e.with(fmt.Sprintf("They are lost: %v", err))
	}
	note := fmt.Sprintf("All %d bytes are the artifact %s", len(whole), stored.Name)
	if r.reads {
		note += fmt.Sprintf(": read_artifact reads it, from line %d on for this part", e.line)
	}
	return e.with(note)
}

// maxStoreTime bounds the storing of a text.
const maxStoreTime = 30 * time.Second

// noteRoom is the room in an excerpt for its note, in bytes.
const noteRoom = 400

// excerpt is a text without its middle.
type excerpt struct {
	head, tail string
	// cut is the number of bytes between head and tail.
	cut int
	// line is the number of the first line that is not whole in head.
	line int
}

// cutMiddle keeps about limit bytes of a longer text, half of them from its
// end. It cuts at the ends of lines if there are any near, and never inside of
// a character.
func cutMiddle(whole string, limit int) excerpt {
	head := text.Head(whole, limit/2)
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i+1]
	}
	tail := whole[len(whole)-limit/2:]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	return excerpt{head, tail, len(whole) - len(head) - len(tail), text.Line(whole, len(head))}
}

// with returns the text with a note in the place of its middle.
func (e excerpt) with(note string) string {
	return fmt.Sprintf("%s\n... [%d bytes are left out here. %s]\n%s",
		strings.TrimSuffix(e.head, "\n"), e.cut, text.Truncate(note, noteRoom-100), e.tail)
}
