package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Artifact is a file that belongs to a tree: an object of the object store
// under a name of the tree. A name is bound to its bytes once and for all, so
// that no reader ever finds other bytes than a reader before it.
type Artifact struct {
	// Name is unique in its tree.
	Name string
	// MediaType is for example "text/plain". It may be empty.
	MediaType string
	// Path is the path of the tool run that stored the artifact.
	Path string
	// Size is the number of bytes.
	Size int64
	// Digest is the SHA-256 of the bytes, in hex.
	Digest string
	// Stored is the time at which the artifact was stored.
	Stored time.Time

	// chunks is the last token of the subject of the chunks. It is empty if
	// there is no artifact.
	chunks string
	// meta is the sequence of the last metadata under the name, those of a
	// removed artifact too. It is 0 without any.
	meta uint64
}

// ErrNoArtifact is wrapped by the error for a name that a tree has no artifact
// under.
var ErrNoArtifact = errors.New("no such artifact")

// ArtifactTakenError is the error of Artifacts.Store for a name that is bound
// to other bytes.
type ArtifactTakenError struct{ Artifact }

// Error names the artifact that is there.
func (e *ArtifactTakenError) Error() string {
	return fmt.Sprintf("artifact %q is there already, with other bytes: %d bytes of %s", e.Name, e.Size, e.Path)
}

// ArtifactObject returns the name that an artifact of a tree has in the object
// store. No large body has such a name.
func ArtifactObject(tree subjects.Tree, name string) string { return tree.String() + "/" + name }

// Artifacts are the artifacts of one tree.
type Artifacts struct {
	conn *Conn
	tree subjects.Tree
}

// ArtifactsOf returns the artifacts of a tree.
func ArtifactsOf(c *Conn, tree subjects.Tree) Artifacts { return Artifacts{c, tree} }

// maxChunk bounds a chunk of an artifact, in bytes. It is that of ADR-20.
const maxChunk = 128 << 10

// typeHeader is the header of an object with the media type.
const typeHeader = "Content-Type"

// Store stores bytes under the name of an artifact, and returns the artifact
// with Size, Digest and Stored. If the name has the same bytes already, it
// stores nothing. If the name has others, the error is an *ArtifactTakenError.
//
// The chunks come first. The object exists with its metadata, which are fenced:
// of two writers the server refuses one. Chunks without metadata are dropped
// for their age.
func (as Artifacts) Store(ctx context.Context, a Artifact, b []byte) (Artifact, error) {
	return as.StoreObject(ctx, Object{ArtifactObject(as.tree, a.Name), a}, b)
}

// StoreObject is Store for any object of the tree.
func (as Artifacts) StoreObject(ctx context.Context, o Object, b []byte) (Artifact, error) {
	c, object, a := as.conn, o.Name, o.Artifact
	if err := c.intercept(Point{"store", object, false}); err != nil {
		return a, err
	}
	sum := sha256.Sum256(b)
	a.Size, a.Digest = int64(len(b)), hex.EncodeToString(sum[:])
	found, err := as.at(ctx, object)
	if err == nil && found.chunks == "" {
		a.meta = found.meta
		found, err = as.write(ctx, Object{object, a}, b)
		if _, lost := errors.AsType[*ConflictError](err); lost {
			// Another writer was first, or the answer to this one
			// was lost.
			found, err = as.at(ctx, object)
		}
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("artifact %q: %w", a.Name, err)
	case found.Digest != a.Digest:
		return found, &ArtifactTakenError{found}
	}
	return found, c.intercept(Point{"store", object, true})
}

// write writes the chunks of an object and then its metadata.
func (as Artifacts) write(ctx context.Context, o Object, b []byte) (Artifact, error) {
	c, space, object, a := as.conn, as.conn.cfg.Space, o.Name, o.Artifact
	a.chunks = nuid.Next()
	size := int(min(maxChunk, c.nc.MaxPayload()-headerRoom))
	chunks, last := 0, uint64(0)
	for rest := b; len(rest) > 0; chunks++ {
		n := min(size, len(rest))
		subject := objectSubject(space, "C", a.chunks)
		seq, err := c.Write(ctx, Message{Subject: subject, Body: rest[:n], Fence: After(subject, last)})
		if stored, ok := errors.AsType[*ConflictError](err); ok && stored.Last > last {
			// Only this call writes here: the answer to the chunk
			// was lost.
			seq, err = stored.Last, nil
		}
		if err != nil {
			return a, err
		}
		last = seq
		rest = rest[n:]
	}
	meta, err := json.Marshal(objectInfo(space, object, a, chunks))
	if err != nil {
		return a, err
	}
	subject := metaSubject(space, object)
	_, err = c.Write(ctx, Message{Subject: subject, Body: meta, Fence: After(subject, a.meta)})
	a.Stored = c.Clocks.Now()
	return a, err
}

// objectInfo is the metadata of an artifact, in the form of ADR-20.
func objectInfo(space subjects.Space, object string, a Artifact, chunks int) jetstream.ObjectInfo {
	sum, _ := hex.DecodeString(a.Digest) // it was encoded a moment ago
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{
			Name: object, Description: a.Path, Opts: &jetstream.ObjectMetaOptions{ChunkSize: maxChunk},
		},
		Bucket: space.Name("OBJECTS"), NUID: a.chunks, Size: uint64(a.Size), Chunks: uint32(chunks),
		Digest: digestPrefix + base64.URLEncoding.EncodeToString(sum),
	}
	if a.MediaType != "" {
		info.Headers = nats.Header{typeHeader: {a.MediaType}}
	}
	return info
}

// digestPrefix is the beginning of the digest in an object's metadata.
const digestPrefix = "SHA-256="

// Find returns the artifact with a name. It asks the leader of the object
// store. The error wraps ErrNoArtifact if the tree has none under the name.
func (as Artifacts) Find(ctx context.Context, name string) (Artifact, error) {
	a, err := as.at(ctx, ArtifactObject(as.tree, name))
	switch {
	case err != nil:
		return a, fmt.Errorf("artifact %q: %w", name, err)
	case a.chunks == "":
		return a, fmt.Errorf("%w: %q", ErrNoArtifact, name)
	}
	return a, nil
}

// at reads the metadata of an object, which may be a large body. An object that
// does not exist, or was removed, has no chunks.
func (as Artifacts) at(ctx context.Context, object string) (Artifact, error) {
	c := as.conn
	m, there, err := lastBy(ctx, c, apiOfTree(c, as.tree), objectStream(c.cfg.Space), metaSubject(c.cfg.Space, object))
	if err != nil || !there {
		return Artifact{}, err
	}
	a := Artifact{meta: m.Seq}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Body, &info); err != nil {
		return a, fmt.Errorf("metadata of the object: %w", err)
	}
	sum, err := jetstream.DecodeObjectDigest(info.Digest)
	if info.Deleted || err != nil {
		return a, nil //nolint:nilerr // it has no bytes that a reader could check
	}
	_, a.Name, _ = strings.Cut(object, "/")
	a.MediaType = info.Headers.Get(typeHeader)
	a.Path = info.Description
	a.Size = int64(info.Size)
	a.Digest = hex.EncodeToString(sum)
	a.Stored = m.Time
	a.chunks = info.NUID
	return a, nil
}

// artifactPage bounds the bytes of an artifact that a reader holds at a time.
const artifactPage = 4 << 20

// Copy writes the bytes of an artifact to w, a few MiB at a time. It
// begins with at least 512 bytes if there are as many. After an error w has a
// part of the bytes: the error wraps ErrNoArtifact if the others were removed.
// An error of w ends the copy, and is returned as it is.
func (as Artifacts) Copy(ctx context.Context, w io.Writer, a Artifact) error {
	if err := as.conn.intercept(Point{"load", ArtifactObject(as.tree, a.Name), false}); err != nil {
		return err
	}
	return as.copy(ctx, w, a)
}

// copy is Copy without the point at which a test intervenes.
func (as Artifacts) copy(ctx context.Context, w io.Writer, a Artifact) error {
	sum, left, seq := sha256.New(), a.Size, uint64(0)
	for left > 0 {
		page, err := as.chunks(ctx, a, seq)
		if err != nil {
			return fmt.Errorf("artifact %q: %w", a.Name, err)
		}
		for _, chunk := range page {
			sum.Write(chunk.Body)
			if _, err := w.Write(chunk.Body); err != nil {
				return err
			}
			left -= int64(len(chunk.Body))
			seq = chunk.Seq
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.Digest {
		return fmt.Errorf("artifact %q: the stored bytes have the digest %s, want %s", a.Name, got, a.Digest)
	}
	return nil
}

// chunks reads the chunks after seq, one at least. A replica that lags
// is asked again for answerTimeout.
func (as Artifacts) chunks(ctx context.Context, a Artifact, seq uint64) ([]Stored, error) {
	c := as.conn
	g := pageAfter(objectSubject(c.cfg.Space, "C", a.chunks), seq)
	g.MaxBytes, g.api = artifactPage, apiOfTree(as.conn, as.tree)
	for end := time.Now().Add(answerTimeout); ; {
		page, err := c.reader.ask(ctx, objectStream(c.cfg.Space), g)
		switch {
		case err != nil || len(page) > 0:
			return page, err
		case c.Replicas() <= 1 || time.Now().After(end):
			return nil, fmt.Errorf("%w: a part of its bytes was removed", ErrNoArtifact)
		}
		if err := pause.For(ctx, lagPoll); err != nil {
			return nil, err
		}
	}
}

// ObjectsAged returns the time before which objects may have been dropped for
// their age; zero if none has been.
func ObjectsAged(ctx context.Context, c *Conn) (time.Time, error) {
	info, err := c.Health.info(ctx, objectStream(c.cfg.Space))
	if err != nil {
		return time.Time{}, err
	}
	return aged(info), nil
}

// objectStream is the name of the stream behind the object store.
func objectStream(space subjects.Space) string { return "OBJ_" + space.Name("OBJECTS") }

// objectSubject is a subject of the object store, as ADR-20 has them.
func objectSubject(space subjects.Space, kind, token string) string {
	return "$O." + space.Name("OBJECTS") + "." + kind + "." + token
}

// objectOf inverts metaSubject; ok is false for any other subject.
func objectOf(space subjects.Space, subject string) (object string, ok bool) {
	token, ok := strings.CutPrefix(subject, objectSubject(space, "M", ""))
	name, err := base64.URLEncoding.DecodeString(token)
	return string(name), ok && err == nil
}

// metaSubject is the subject of the metadata of an object.
func metaSubject(space subjects.Space, object string) string {
	return objectSubject(space, "M", base64.URLEncoding.EncodeToString([]byte(object)))
}
