package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// A body that is larger than the server takes is an object in the object store,
// and the message has the object's name and size.
const (
	headerObject = "Axe-Object"
	headerSize   = "Axe-Size"
)

// headerRoom is the part of the server's largest payload that is left for
// headers and the subject.
const headerRoom = 64 << 10

// externalize moves the body of a message into the object store if the server
// would not take it. The error wraps ErrTooLarge for more than Config.MaxBody
// bytes. The object has a new name, so that no writer ever replaces an object
// that another message refers to.
func (c *Conn) externalize(ctx context.Context, msg *nats.Msg) error {
	size := int64(len(msg.Data))
	if size > c.cfg.MaxBody {
		return fmt.Errorf("%w: %d bytes for %s, at most %d", ErrTooLarge, size, msg.Subject, c.cfg.MaxBody)
	}
	if size <= c.nc.MaxPayload()-headerRoom {
		return nil
	}
	name := nuid.Next()
	err := c.inflight.several(ctx, func(ctx context.Context) error {
		store, err := c.objectStore(ctx)
		if err == nil {
			_, err = store.PutBytes(ctx, name, msg.Data)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store %d bytes for %s: %w", size, msg.Subject, err)
	}
	msg.Header.Set(headerObject, name)
	msg.Header.Set(headerSize, strconv.FormatInt(size, 10))
	msg.Data, err = json.Marshal(map[string]any{"object": name, "size": size})
	return err
}

// Reference returns the headers that refer to the message's object, none if the
// message has its body itself. A copy of the message needs them.
func (m Stored) Reference() [][2]string {
	if m.Header.Get(headerObject) == "" {
		return nil
	}
	return [][2]string{{headerObject, m.Header.Get(headerObject)}, {headerSize, m.Header.Get(headerSize)}}
}

// ErrObjectGone is wrapped by the error of a message if its object is no longer
// in the store.
var ErrObjectGone = errors.New("object of a large message no longer exists")

// Load returns the message's body, from the object store if the message refers
// to an object. On replicas that lag it tries for 5 s. The error wraps
// ErrTooLarge for an object of more than Config.MaxBody bytes or of an unknown
// size, and ErrObjectGone if the store no longer has the object.
func (c *Conn) Load(ctx context.Context, m Stored) ([]byte, error) {
	name := m.Header.Get(headerObject)
	if name == "" {
		return m.Body, nil
	}
	text := m.Header.Get(headerSize)
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || size > c.cfg.MaxBody {
		return nil, fmt.Errorf("%w: %s bytes by reference, at most %d", ErrTooLarge, text, c.cfg.MaxBody)
	}
	if err := c.intercept(Point{"load", name, false}); err != nil {
		return nil, err
	}
	// A body is stored as an artifact is, under a name of its own.
	tree, _ := c.Space().TreeIn(m.Subject)
	of := ArtifactsOf(c, tree)
	a, err := of.at(ctx, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("object %s: %w", name, err)
	case a.chunks == "":
		return nil, fmt.Errorf("object %s: %w", name, ErrObjectGone)
	case a.Size != size:
		return nil, fmt.Errorf("object %s: %d bytes where the message says %d", name, a.Size, size)
	}
	a.Name = name
	whole := bytes.NewBuffer(make([]byte, 0, size))
	if err := of.copy(ctx, whole, a); err != nil {
		if errors.Is(err, ErrNoArtifact) {
			err = ErrObjectGone
		}
		return nil, fmt.Errorf("object %s: %w", name, err)
	}
	return whole.Bytes(), nil
}

func (c *Conn) objectStore(ctx context.Context) (jetstream.ObjectStore, error) {
	c.mu.Lock()
	store := c.objects
	c.mu.Unlock()
	if store != nil {
		return store, nil
	}
	store, err := c.js.ObjectStore(ctx, c.cfg.Space.Name("OBJECTS"))
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", c.cfg.Space.Name("OBJECTS"), err)
	}
	c.mu.Lock()
	c.objects = store
	c.mu.Unlock()
	return store, nil
}
