package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// A body larger than the server takes is put into the object store, and the
// message carries its name.
const (
	headerObject = "Axe-Object"
	headerSize   = "Axe-Size"
)

// room is left for headers and the subject below the server's largest payload.
const room = 64 << 10

// externalize moves a large body into the object store. The object has a name
// of its own, so that no writer ever replaces what another message refers to.
func (c *Conn) externalize(ctx context.Context, msg *nats.Msg) error {
	size := int64(len(msg.Data))
	if size > c.cfg.MaxBody {
		return fmt.Errorf("%w: %d bytes for %s, at most %d", ErrTooLarge, size, msg.Subject, c.cfg.MaxBody)
	}
	if size <= c.nc.MaxPayload()-room {
		return nil
	}
	store, err := c.objectStore(ctx)
	if err != nil {
		return err
	}
	name := nuid.Next()
	if _, err := store.PutBytes(ctx, name, msg.Data); err != nil {
		return fmt.Errorf("store %d bytes for %s: %w", size, msg.Subject, err)
	}
	msg.Header.Set(headerObject, name)
	msg.Header.Set(headerSize, strconv.FormatInt(size, 10))
	msg.Data, err = json.Marshal(map[string]any{"object": name, "size": size})
	return err
}

// Reference is the headers of a message's body that is in the object store,
// none for one that is not: a copy of the message needs them.
func (m Stored) Reference() [][2]string {
	if m.Header.Get(headerObject) == "" {
		return nil
	}
	return [][2]string{{headerObject, m.Header.Get(headerObject)}, {headerSize, m.Header.Get(headerSize)}}
}

// ErrObjectGone is wrapped by the error of a message whose object is not in the store
// any more.
var ErrObjectGone = errors.New("the object of a large message is gone")

// resolve is the body of a message, from the object store if that is where it
// is.
func (c *Conn) resolve(ctx context.Context, h nats.Header, body []byte) ([]byte, error) {
	name := h.Get(headerObject)
	if name == "" {
		return body, nil
	}
	size, err := strconv.ParseInt(h.Get(headerSize), 10, 64)
	if err != nil || size < 0 || size > c.cfg.MaxBody {
		return nil, fmt.Errorf("%w: %s bytes by reference, at most %d", ErrTooLarge, h.Get(headerSize), c.cfg.MaxBody)
	}
	if err := c.intercept(Point{"load", name, false}); err != nil {
		return nil, err
	}
	store, err := c.objectStore(ctx)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(answerTimeout); ; {
		whole, err := object(ctx, store, name, size)
		if err == nil {
			return whole, nil
		}
		lags, failed := c.lags(ctx, name, err)
		if lags && time.Now().Before(end) {
			if failed = Pause(ctx, 10*time.Millisecond); failed == nil {
				continue
			}
		}
		switch {
		case failed != nil:
			err = failed
		case !lags && errors.Is(err, jetstream.ErrObjectNotFound):
			err = ErrObjectGone
		}
		return nil, fmt.Errorf("object %s: %w", name, err)
	}
}

// object reads one, of which the size is known.
func object(ctx context.Context, store jetstream.ObjectStore, name string, size int64) ([]byte, error) {
	obj, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer obj.Close()
	whole, err := io.ReadAll(io.LimitReader(obj, size+1))
	if err == nil && int64(len(whole)) != size {
		err = fmt.Errorf("%d bytes where the message says %d", len(whole), size)
	}
	return whole, err
}

// lags reports whether an object could not be read because the replica that was
// asked has not heard of all of it yet: parts of it are missing, or it is not
// there and the stream's leader has it.
func (c *Conn) lags(ctx context.Context, name string, err error) (bool, error) {
	switch {
	case c.Replicas() <= 1:
		return false, nil
	case errors.Is(err, jetstream.ErrDigestMismatch):
		return true, nil
	case errors.Is(err, jetstream.ErrObjectNotFound):
		bucket := c.cfg.Space.Name("OBJECTS")
		// ADR-20
		_, there, err := c.last(
			ctx,
			"OBJ_"+bucket,
			"$O."+bucket+".M."+base64.URLEncoding.EncodeToString([]byte(name)),
		)
		return there, err
	}
	return false, nil
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
