package main

import (
	"fmt"
	"os"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// readFile gives the messages of an export to a checker. It does nothing
// without --file. The messages are judged as of the time of the export.
func (v *verification) readFile(into *verify.Report) error {
	if v.file == "" {
		return nil
	}
	f, err := os.Open(v.file)
	if err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	defer f.Close()
	r := fileReading{
		checker: verify.New(verify.Config{Slack: v.slack, Takeover: v.takeover}),
		bodies:  map[string][]byte{}, artifacts: map[named]string{},
	}
	var at time.Time
	for l, err := range archive.Read(f) {
		if err != nil {
			return cli.Fail(cli.CodeConfig, fmt.Errorf("%s: %w", v.file, err))
		}
		if l.Tree.IsZero() {
			at = l.Exported
		}
		r.line(l)
	}
	err = r.checker.CheckArtifacts(func(t subjects.Tree, name string) (string, error) {
		return r.artifacts[named{t, name}], nil
	}, time.Time{})
	*into = r.checker.Report(at)
	return err
}

// named is the name of an artifact of a tree.
type named struct {
	tree subjects.Tree
	name string
}

// fileReading feeds a checker from a file.
type fileReading struct {
	checker *verify.Checker
	// bodies are the large bodies of the tree that is being read.
	bodies map[string][]byte
	// artifacts are the digests of all artifacts.
	artifacts map[named]string
}

func (r *fileReading) line(l archive.Line) {
	switch {
	case l.Object != nil:
		if name, ok := l.Object.Artifact(l.Tree); ok {
			r.artifacts[named{l.Tree, name}] = l.Object.SHA256
		} else {
			r.bodies[l.Object.Name] = l.Object.Data
		}
	case l.Message != nil:
		r.message(l.Tree, *l.Message)
	case l.End != nil:
		clear(r.bodies)
	}
}

func (r *fileReading) message(t subjects.Tree, m archive.Message) {
	var space subjects.Space
	subject, err := subjects.Absolute(space, t, m.Subject)
	if err != nil {
		return // archive.Read has refused it
	}
	body, gone := m.Content(), false
	if m.Object != "" {
		body, gone = r.bodies[m.Object], r.bodies[m.Object] == nil
		delete(r.bodies, m.Object)
	}
	v := verify.Message{
		Subject: subject, Seq: m.Seq, Time: m.Time, Body: body, Gone: gone, Fenced: m.Fence != nil,
		Header: func(name string) string { return archive.Absolute(space, t, name, m.Get(name)) },
	}
	written := bus.Written(m.Header, body)
	v.Unproven, v.Answer = !written.ProvesSender(), written.IsAnswer()
	if m.Fence != nil {
		v.Fence = *m.Fence
	}
	r.checker.Add(v)
}
