package web

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// maxTrees bounds the trees of one page of a list.
const maxTrees = 500

// treesQuery reads the query of a list of trees.
func treesQuery(r *http.Request) (k treesKey, err error) {
	q := r.URL.Query()
	if agent := q.Get("agent"); agent != "" {
		if k.agent, err = subjects.ParseAgent(agent); err != nil {
			return k, err
		}
	}
	if before := q.Get("before"); before != "" {
		k.before = client.TreeID(before)
	}
	var names []string
	for _, list := range q["status"] {
		for name := range strings.SplitSeq(list, ",") {
			if !slices.Contains(client.TreeStatuses(), client.TreeStatus(name)) {
				return k, invalid("status must be one of %v, got %q", client.TreeStatuses(), name)
			}
			names = append(names, name)
		}
	}
	k.statuses = strings.Join(names, ",")
	if k.since, err = duration(q.Get("since")); err != nil {
		return k, invalid("since %w", err)
	}
	if k.all, err = boolean(q.Get("all")); err != nil {
		return k, invalid("all %w", err)
	}
	k.n = client.DefaultTrees
	if n := q.Get("n"); n != "" {
		if k.n, err = strconv.Atoi(n); err != nil || k.n < 1 || k.n > maxTrees {
			return k, invalid("n must be 1 to %d, got %q", maxTrees, n)
		}
	}
	return k, nil
}

// duration parses seconds or a duration such as 10m, and 0 for an empty text.
func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	var d cli.Seconds
	if err := d.Set(text); err != nil {
		return 0, fmt.Errorf("%w, got %q", err, text)
	}
	if d < 0 {
		return 0, fmt.Errorf("must not be negative, got %q", text)
	}
	return time.Duration(d), nil
}

// boolean parses true or false, and false for an empty text.
func boolean(text string) (bool, error) {
	switch text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, fmt.Errorf("must be true or false, got %q", text)
}

func (s *Server) readTrees(ctx context.Context, k treesKey) (client.TreePage, error) {
	q := client.TreeQuery{Agent: k.agent, All: k.all, N: k.n, Before: k.before}
	for name := range strings.SplitSeq(k.statuses, ",") {
		if name != "" {
			q.Statuses = append(q.Statuses, client.TreeStatus(name))
		}
	}
	if k.since > 0 {
		q.Since = time.Now().Add(-k.since)
	}
	return s.Trees(ctx, q)
}

// treeList is a page of a list of trees.
type treeList struct {
	Trees []cli.TreeLine `json:"trees"`
	// Next is the value of before for the next page, "" for the last page.
	Next string `json:"next,omitzero"`
}

func (s *Server) listTrees(w http.ResponseWriter, r *http.Request) error {
	k, err := treesQuery(r)
	if err != nil {
		return err
	}
	page, err := s.reads.trees.get(r.Context(), k)
	if err != nil {
		return err
	}
	list := treeList{Trees: []cli.TreeLine{}}
	d := s.display()
	for _, t := range page.Trees {
		list.Trees = append(list.Trees, cli.TreeLineOf(t, d))
	}
	if !page.Last.IsZero() {
		list.Next = page.Last.String()
	}
	return reply(w, http.StatusOK, list)
}

// treeOf returns the tree that a request names.
func treeOf(r *http.Request) subjects.Tree { return client.TreeID(r.PathValue("tree")) }

// treeAnswer is a tree with its runs.
type treeAnswer struct {
	Tree string `json:"tree"`
	// Queued says that no worker has taken the submission yet.
	Queued bool          `json:"queued"`
	Runs   []cli.RunLine `json:"runs"`
}

func (s *Server) showTree(w http.ResponseWriter, r *http.Request) error {
	snapshot, err := s.reads.snapshots.get(r.Context(), treeOf(r))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, treeAnswer{
		snapshot.Root.Tree.String(), snapshot.Queued, cli.RunLines(snapshot, subjects.Root, s.display()),
	})
}

// runAnswer is a run with its conversation.
type runAnswer struct {
	Run      cli.RunLine       `json:"run"`
	Messages []cli.MessageLine `json:"messages"`
}

func (s *Server) showRun(w http.ResponseWriter, r *http.Request) error {
	tree := treeOf(r)
	path, err := subjects.ParsePath(r.PathValue("path"))
	if err != nil {
		return err
	}
	snapshot, err := s.reads.snapshots.get(r.Context(), tree)
	if err != nil {
		return err
	}
	answer := runAnswer{Messages: []cli.MessageLine{}}
	lines := cli.RunLines(snapshot, path, s.display())
	if len(lines) == 0 || lines[0].Path != path.String() || snapshot.Queued && !path.IsRoot() {
		return fmt.Errorf("%w: %s of tree %s", client.ErrUnknownRun, path, tree)
	}
	answer.Run = lines[0]
	for _, m := range snapshot.Conversation(path) {
		answer.Messages = append(answer.Messages, cli.MessageLineOf(m, s.prices))
	}
	return reply(w, http.StatusOK, answer)
}

// partings are the places at which two trees part.
type partings struct {
	A        string           `json:"a"`
	B        string           `json:"b"`
	Partings []client.Parting `json:"partings"`
}

func (s *Server) diff(w http.ResponseWriter, r *http.Request) error {
	other := client.TreeID(r.PathValue("other"))
	a, err := s.reads.snapshots.get(r.Context(), treeOf(r))
	if err != nil {
		return err
	}
	b, err := s.reads.snapshots.get(r.Context(), other)
	if err != nil {
		return err
	}
	all := append([]client.Parting{}, client.Compare(a, b)...)
	return reply(w, http.StatusOK, partings{treeOf(r).String(), other.String(), all})
}

// artifactList are the artifacts of a tree.
type artifactList struct {
	Artifacts []client.Artifact `json:"artifacts"`
}

func (s *Server) listArtifacts(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Artifacts(r.Context(), treeOf(r))
	return answered(w, artifactList{append([]client.Artifact{}, all...)}, err)
}

// artifact answers with the bytes of an artifact, as a file to be stored: a
// model has written it, and no browser may take it for a page of this server.
func (s *Server) artifact(w http.ResponseWriter, r *http.Request) error {
	lasts(w)
	name := r.PathValue("name")
	out := &attachment{w: w, name: name}
	err := s.CopyArtifact(r.Context(), out, treeOf(r), name)
	if err != nil && out.begun {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	if err == nil && !out.begun {
		_, err = io.WriteString(out, "") // it is empty
	}
	return err
}

// attachment writes the headers of a file before its first bytes.
type attachment struct {
	w     http.ResponseWriter
	name  string
	begun bool
}

// Write implements io.Writer.
func (a *attachment) Write(b []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/octet-stream")
		a.w.Header().Set("Content-Disposition",
			mime.FormatMediaType("attachment", map[string]string{"filename": a.name}))
		a.w.Header().Set("Content-Security-Policy", "sandbox")
		a.w.WriteHeader(http.StatusOK)
	}
	extend(a.w, writeTimeout)
	return a.w.Write(b)
}
