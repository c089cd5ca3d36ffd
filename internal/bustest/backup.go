package bustest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Backup is a copy of streams, with their consumers.
type Backup []streamBackup

// streamBackup is the copy of one stream, as the server's API gives it out:
// https://docs.nats.io/reference/reference-protocols/nats_api_reference.
type streamBackup struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	name   string
	chunks [][]byte
}

// errAPI is an answer of the server's API that is an error.
var errAPI = errors.New("the server refuses")

// api sends a request to the server's API and decodes the answer.
func api(ctx context.Context, nc *nats.Conn, subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM."+subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return decodeAnswer(m.Data, subject, answer)
}

func decodeAnswer(body []byte, subject string, answer any) error {
	var failed struct {
		Error *struct{ Description string }
	}
	if err := json.Unmarshal(body, &failed); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if failed.Error != nil {
		return fmt.Errorf("%s: %w: %s", subject, errAPI, failed.Error.Description)
	}
	return json.Unmarshal(body, answer)
}

// BackUp copies streams one after the other while the server works, as
// nats stream backup does.
func BackUp(ctx context.Context, nc *nats.Conn, streams []string) (all Backup, _ error) {
	for _, name := range streams {
		s, err := backUpStream(ctx, nc, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func backUpStream(ctx context.Context, nc *nats.Conn, name string) (s streamBackup, _ error) {
	s.name = name
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return s, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := map[string]any{"deliver_subject": inbox}
	if err := api(ctx, nc, "SNAPSHOT."+name, request, &s); err != nil {
		return s, err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return s, fmt.Errorf("backup of %s: %w", name, err)
		}
		if len(m.Data) == 0 {
			return s, nil
		}
		s.chunks = append(s.chunks, m.Data)
		if m.Reply == "" {
			continue // the server waits for no answer to this part
		}
		if err := m.Respond(nil); err != nil {
			return s, err
		}
	}
}

// Restore makes the streams on a server that has none of them.
func (b Backup) Restore(ctx context.Context, nc *nats.Conn) error {
	for _, s := range b {
		var to struct {
			Subject string `json:"deliver_subject"`
		}
		if err := api(ctx, nc, "RESTORE."+s.name, s, &to); err != nil {
			return err
		}
		// An empty message is the end.
		for _, chunk := range append(s.chunks, nil) {
			m, err := nc.RequestWithContext(ctx, to.Subject, chunk)
			if err != nil {
				return fmt.Errorf("restore of %s: %w", s.name, err)
			}
			if len(m.Data) == 0 {
				continue
			}
			if err := decodeAnswer(m.Data, "restore of "+s.name, &struct{}{}); err != nil {
				return err
			}
		}
	}
	return nil
}
