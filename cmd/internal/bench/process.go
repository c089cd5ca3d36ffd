package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/secret"
)

// processConfig configures a process. It is the first line of the process's
// standard input. After that, each empty line asks for the usage so far, and
// the line "rest" asks for the usage at rest. The process ends with its input.
type processConfig struct {
	Role role `json:"role"`
	// StoreDir, Sync and Listen are those of a server.
	StoreDir string `json:"store_dir,omitzero"`
	Listen   string `json:"listen,omitzero"`
	Sync     bool   `json:"sync,omitzero"`
	// Dial and Prefix are those of a worker and of a page, Name and Slots
	// those of a worker.
	Dial bus.Dial `json:"dial,omitzero"`
	// Secrets complete Dial: its JSON has none.
	Secrets dialSecrets `json:"secrets,omitzero"`
	Prefix  string      `json:"prefix,omitzero"`
	Name    string      `json:"name,omitzero"`
	Slots   int         `json:"slots,omitzero"`
	// Metrics makes a worker count for Prometheus. Its URL is that of the
	// metrics.
	Metrics bool `json:"metrics,omitzero"`
	// Signers make a worker require signatures of outcomes. SignSeed is the
	// seed of the key with which it signs; "": it signs with that of its
	// connection, if that key has a grant.
	Signers  []string `json:"signers,omitempty"`
	SignSeed string   `json:"sign_seed,omitzero"`
	// ExtraAgents is the number of agents that a worker serves beside those
	// of the workloads.
	ExtraAgents int `json:"extra_agents,omitzero"`
	// Only are the agents that a worker serves. Without any it serves all.
	Only []string `json:"only,omitempty"`
	// Raw are the groups of raw servers in the process of a worker.
	Raw []rawServers `json:"raw,omitempty"`
	// ModelURL is the model behind HTTP; "": the model is in the process of
	// the worker.
	ModelURL string        `json:"model_url,omitzero"`
	Latency  time.Duration `json:"latency_ns,omitzero"`
	// Profile is the beginning of the names of the profiles; "": none.
	Profile string `json:"profile,omitzero"`
}

// dialSecrets are the settings of a bus.Dial that have secrets. Only the input
// of a process has them.
type dialSecrets struct {
	URL      string `json:"url,omitzero"`
	Password string `json:"password,omitzero"`
	Token    string `json:"token,omitzero"`
}

func secretsOf(d bus.Dial) dialSecrets {
	return dialSecrets{d.URL, d.Password.Reveal(), d.Token.Reveal()}
}

// complete returns a Dial with its secrets.
func (s dialSecrets) complete(d bus.Dial) bus.Dial {
	d.URL, d.Password, d.Token = s.URL, secret.Text(s.Password), secret.Text(s.Token)
	return d
}

type role string

const (
	server role = "server"
	model  role = "model"
	worker role = "worker"
	// page serves the HTTP API.
	page role = "page"
)

// rawServers is a group of raw servers in the process of a worker.
type rawServers struct {
	Name string `json:"name"`
	// N is the number of requests that the group handles at once.
	N int `json:"n"`
	// Ahead lets the client library keep 500 messages in hand.
	Ahead bool `json:"ahead,omitzero"`
	// HTTP makes a server ask the model over HTTP before it replies.
	HTTP bool `json:"http,omitzero"`
}

// status is a line of a process's standard output. The first one says that the
// process is ready, or why it is not. The later ones have the usage.
type status struct {
	URL   string `json:"url,omitzero"`
	Error string `json:"error,omitzero"`
	Usage usage  `json:"usage,omitzero"`
}

// usage is the use of resources by a process since it began.
type usage struct {
	CPU time.Duration `json:"cpu_ns"`
	// Peak is the largest resident memory in bytes.
	Peak int64 `json:"peak_bytes"`
	// Read is the number of messages of runs that the process has read,
	// deliveries not counted.
	Read uint64 `json:"read"`

	// Heap is in bytes, without garbage. A usage at rest has Heap and
	// Goroutines alone. Any other usage has neither.
	Heap       int64 `json:"heap_bytes,omitzero"`
	Goroutines int   `json:"goroutines,omitzero"`
}

// restLine asks a process for its usage at rest.
const restLine = "rest"

// process is a process that this one has started. It is for one goroutine.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	url string
	// name is that of a worker.
	name string
}

// startProcess starts this program again as a process with a role.
func startProcess(ctx context.Context, command []string, o processConfig, stderr io.Writer) (*process, error) {
	// The process ends with its input, not with ctx.
	c := &process{name: o.Name, cmd: exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)}
	c.cmd.Stderr = stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Role, err)
	}
	c.in, c.out = in, json.NewDecoder(out)
	var ready status
	o.Secrets = secretsOf(o.Dial)
	err = json.NewEncoder(in).Encode(o)
	if err == nil {
		err = c.out.Decode(&ready)
	}
	if err == nil && ready.Error != "" {
		err = errors.New(ready.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Role, err), c.end())
	}
	c.url = ready.URL
	return c, nil
}

// used asks for the usage so far.
func (c *process) used() (usage, error) { return c.asked("") }

// idle asks for the usage at rest.
func (c *process) idle() (usage, error) { return c.asked(restLine) }

func (c *process) asked(line string) (usage, error) {
	var r status
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return usage{}, err
	}
	err := c.out.Decode(&r)
	return r.Usage, err
}

// endTimeout is the time that a process has to end before it is killed.
const endTimeout = 10 * time.Second

// kill ends the process at once.
func (c *process) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it says that the process was killed
	_ = c.in.Close()
}

// end closes the process's input and waits until it has ended.
func (c *process) end() error {
	_ = c.in.Close()
	t := time.AfterFunc(endTimeout, func() { _ = c.cmd.Process.Kill() })
	defer t.Stop()
	return c.cmd.Wait()
}
