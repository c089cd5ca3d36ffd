package bus

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/axebus/axe/subjects"
)

// artifactTree returns the tree order4711, which owns the artifacts of a test.
func artifactTree(t *testing.T) subjects.Tree {
	t.Helper()
	tree, err := subjects.ParseTree("order4711")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestArtifactKeepsItsBytes: an artifact of any size is read as it was stored,
// by this package and by the client library. A second Store of the same bytes
// under the same name returns the first artifact. Store refuses other bytes.
func TestArtifactKeepsItsBytes(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	all := ArtifactsOf(c, artifactTree(t))
	store, err := c.objectStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"empty": 0, "one.txt": 1, "some.txt": 300 << 10, "much.txt": 9<<20 + 1} {
		body := []byte(strings.Repeat("0123456789", size/10+1)[:size])
		a, err := all.Store(t.Context(), Artifact{Name: name, MediaType: "text/plain", Path: "r-1-0"}, body)
		if err != nil {
			t.Fatal(err)
		}
		found, err := all.Find(t.Context(), name)
		if err != nil || found.Digest != a.Digest || found.Size != int64(size) || found.Path != "r-1-0" ||
			found.MediaType != "text/plain" || found.Name != name {
			t.Errorf("%s: found %+v, %v, want %+v", name, found, err, a)
		}
		var got bytes.Buffer
		if err := all.Copy(t.Context(), &got, found); err != nil || !bytes.Equal(got.Bytes(), body) {
			t.Errorf("%s: read %d bytes, %v, want %d", name, got.Len(), err, size)
		}
		stock, err := store.GetBytes(t.Context(), "order4711/"+name)
		if err != nil || !bytes.Equal(stock, body) {
			t.Errorf("%s: the library reads %d bytes, %v, want %d", name, len(stock), err, size)
		}
		again, err := all.Store(t.Context(), Artifact{Name: name, Path: "r-2-0"}, body)
		if err != nil || again.chunks != found.chunks || again.Path != "r-1-0" {
			t.Errorf("%s: the same bytes again are %+v, %v, want the artifact that is there", name, again, err)
		}
		_, err = all.Store(t.Context(), Artifact{Name: name, Path: "r-2-0"}, append(body, 'x'))
		if taken, ok := errors.AsType[*ArtifactTakenError](err); !ok || taken.Path != "r-1-0" {
			t.Errorf("%s: other bytes end with %v, want an ArtifactTakenError of r-1-0", name, err)
		}
	}
}

// TestArtifactRace: twenty writers store different bytes under one name. All of
// them have found the name free. Exactly one succeeds. The others get an
// ArtifactTakenError.
func TestArtifactRace(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	all := ArtifactsOf(c, artifactTree(t))
	var writers, looked sync.WaitGroup
	errs := make([]error, 20)
	looked.Add(len(errs))
	c.cfg.Intercept = func(p Point) error {
		// Each writer has one chunk, which it writes after its look.
		if p.Op == "write" && !p.After && strings.HasPrefix(p.Subject, objectSubject(c.cfg.Space, "C", "")) {
			looked.Done()
			looked.Wait()
		}
		return nil
	}
	for i := range errs {
		writers.Go(func() {
			_, errs[i] = all.Store(t.Context(), Artifact{Name: "a"}, bytes.Repeat([]byte{byte(i)}, i+1))
		})
	}
	writers.Wait()
	winner := -1
	for i, err := range errs {
		if _, lost := errors.AsType[*ArtifactTakenError](err); lost {
			continue
		}
		if err != nil || winner >= 0 {
			t.Errorf("writer %d: got %v after writer %d had stored its own, want an ArtifactTakenError", i, err, winner)
		}
		winner = i
	}
	a, err := all.Find(t.Context(), "a")
	if err != nil || a.Size != int64(winner+1) {
		t.Errorf("found %+v, %v, want that of writer %d", a, err, winner)
	}
}

// TestArtifactRemoved: an artifact that was removed is not found, and its name
// is free. An artifact without its chunks cannot be read.
func TestArtifactRemoved(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	all := ArtifactsOf(c, artifactTree(t))
	store, err := c.objectStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Find(t.Context(), "a"); !errors.Is(err, ErrNoArtifact) {
		t.Errorf("before it is stored: %v, want ErrNoArtifact", err)
	}
	for _, text := range []string{"first", "second"} {
		a, err := all.Store(t.Context(), Artifact{Name: "a"}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), "order4711/a"); err != nil {
			t.Fatal(err)
		}
		if _, err := all.Find(t.Context(), "a"); !errors.Is(err, ErrNoArtifact) {
			t.Errorf("after its removal: %v, want ErrNoArtifact", err)
		}
		if err := all.Copy(t.Context(), io.Discard, a); !errors.Is(err, ErrNoArtifact) {
			t.Errorf("without its chunks: %v, want ErrNoArtifact", err)
		}
	}
}

// TestArtifactStep: Intercept is called before an artifact is stored. Store
// returns its error, and stores nothing.
func TestArtifactStep(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	all, broken := ArtifactsOf(c, artifactTree(t)), errors.New("broken")
	var seen []Point
	c.cfg.Intercept = func(p Point) error {
		if p.Op == "store" {
			seen = append(seen, p)
			return broken
		}
		return nil
	}
	if _, err := all.Store(t.Context(), Artifact{Name: "a"}, []byte("x")); !errors.Is(err, broken) {
		t.Errorf("stored with %v, want %v", err, broken)
	}
	if len(seen) != 1 || seen[0] != (Point{"store", "order4711/a", false}) {
		t.Errorf("the steps are %v, want one before the store of order4711/a", seen)
	}
	if _, err := all.Find(t.Context(), "a"); !errors.Is(err, ErrNoArtifact) {
		t.Errorf("find after a failed step: got %v, want ErrNoArtifact", err)
	}
}
