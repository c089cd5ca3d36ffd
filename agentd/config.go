package agentd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// RateLimit is the rate limit of one provider account, for the requests of all
// workers together. The zero value is no limit.
type RateLimit = ratelimit.Settings

// Config configures a worker. Only Open is required. A number or duration of 0
// stands for the default. New refuses a negative one.
type Config struct {
	// Name is the worker's name in log messages, in stored entries and
	// outcomes, and among the workers on the bus. The default is a random
	// name.
	Name string

	// Open returns the provider for a "provider/model", and the model's
	// name at that provider. It is required.
	Open func(model string) (p provider.Provider, name string, err error)

	// Model is a "provider/model" that replaces the model of every agent.
	// With "" every agent uses its own.
	Model string

	// Root changes the definition of an agent for root runs. With nil they
	// use the definition as it is.
	Root func(configs.Agent) configs.Agent

	// Slots is the number of model calls that the worker makes at a time.
	// The default is DefaultSlots.
	Slots int

	// Sandbox runs the commands of agents and the programs of toolsets of
	// the kind command. With nil the worker serves none of these.
	Sandbox *Sandbox

	// ToolSlots is the number of tools that the worker runs at a time. The
	// default is DefaultToolSlots.
	ToolSlots int

	// ActiveAgents is the largest number of agents for which the worker
	// always pulls. If it serves more, it pulls for the active ones alone,
	// and makes unused ones dormant while more than ActiveAgents are
	// active. The default is DefaultActiveAgents.
	ActiveAgents int

	// DormantAfter is the time without work after which an agent may become
	// dormant. The default is DefaultDormantAfter.
	DormantAfter time.Duration

	// RateLimit returns the account with which a model is asked, and the
	// rate limit of that account. The account is a name for a provider and
	// an API key. With nil, or for a zero RateLimit, the worker does not
	// limit its requests.
	RateLimit func(model string) (account string, s RateLimit)

	// Unattended says that no person can answer the worker's runs. A run
	// that may wait for a person's approval then fails at its start, and a
	// tool call that would wait for a person fails.
	Unattended bool
	// Unproven says that the server does not prove the user that sent a
	// message. A run that may wait for the decision of certain users then
	// fails at its start, and a tool call that would wait for one fails.
	Unproven bool

	// Memory stores the memories of agents. With nil no agent has a memory.
	Memory memory.Store

	// Timeout bounds the time of a submitted tree, from the submission to
	// the outcome. A submission may ask for less. The default is
	// DefaultTimeout.
	Timeout time.Duration

	// Grace is the time that model calls and tool runs in flight have to end
	// when the worker drains. Then the worker aborts them. The default is
	// DefaultGrace.
	Grace time.Duration

	// Poison is the number of deliveries of a trigger that may fail, or end
	// without a word after their worker has begun. At the next delivery the
	// run ends as poisoned. Deliveries without any entry count too, up to half
	// of Poison. The default is DefaultPoison.
	Poison int

	// WatchInterval is the time between two checks of another worker. If
	// that worker's process is gone, this worker gives back its deliveries,
	// and others go on with them. The default is DefaultWatchInterval.
	WatchInterval time.Duration

	// Cache bounds the memory for the folded states of waiting runs, in
	// bytes. A state is kept for a minute at most. The default is
	// DefaultCache.
	Cache int

	// Serving is called once, when the worker has announced its agents and
	// takes submissions. With nil nothing is called.
	Serving func()

	// Answers are the answers of models that the process remembers. Workers
	// that run one after the other in a process may be given the same
	// Answers. The default is a new one.
	Answers *Answers

	// Log receives the worker's log messages. With nil they are discarded.
	Log *slog.Logger

	// Metrics counts the worker's work. With nil nothing is counted.
	// Workers that run one after the other in a process may be given the
	// same Metrics.
	Metrics *Metrics

	// Prices are the prices of models. If they are set, the log message about
	// the end of a tree has the tree's cost.
	Prices price.Table

	// TreeLog receives the messages about trees and their runs. The default
	// is Log.
	TreeLog *slog.Logger
}

// Defaults of Config.
const (
	DefaultSlots = 64
	// DefaultToolSlots is smaller: a tool may take a processor.
	DefaultToolSlots = 16
	DefaultTimeout   = time.Hour
	DefaultGrace     = 30 * time.Second
	DefaultPoison    = 20
	DefaultCache     = 64 << 20

	DefaultWatchInterval = presence.DefaultWatchInterval

	DefaultActiveAgents = 250
	DefaultDormantAfter = time.Minute
)

// validate returns the configuration with its defaults filled in. The error
// names a field that is missing or negative.
func (c Config) validate() (Config, error) {
	if c.Open == nil {
		return c, errors.New("agentd: Config.Open is required")
	}
	err := cmp.Or(
		checkNotNegative("Slots", c.Slots), checkNotNegative("ToolSlots", c.ToolSlots),
		checkNotNegative("ActiveAgents", c.ActiveAgents), checkNotNegative("DormantAfter", c.DormantAfter),
		checkNotNegative("Timeout", c.Timeout), checkNotNegative("Grace", c.Grace),
		checkNotNegative("Poison", c.Poison), checkNotNegative("Cache", c.Cache),
		checkNotNegative("WatchInterval", c.WatchInterval),
	)
	if err != nil {
		return c, err
	}
	c.Slots = cmp.Or(c.Slots, DefaultSlots)
	c.ToolSlots = cmp.Or(c.ToolSlots, DefaultToolSlots)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Poison = cmp.Or(c.Poison, DefaultPoison)
	c.Cache = cmp.Or(c.Cache, DefaultCache)
	c.WatchInterval = cmp.Or(c.WatchInterval, DefaultWatchInterval)
	c.ActiveAgents = cmp.Or(c.ActiveAgents, DefaultActiveAgents)
	c.DormantAfter = cmp.Or(c.DormantAfter, DefaultDormantAfter)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.TreeLog = cmp.Or(c.TreeLog, c.Log)
	if c.Answers == nil {
		c.Answers = NewAnswers()
	}
	if c.Serving == nil {
		c.Serving = func() {}
	}
	if c.Name == "" {
		c.Name = "w" + bus.NewID()
	}
	return c, nil
}

func checkNotNegative[T int | time.Duration](field string, value T) error {
	if value < 0 {
		return fmt.Errorf("agentd: Config.%s must not be negative, got %v", field, value)
	}
	return nil
}

// doubt is the largest number of deliveries without a return that count
// against a trigger: half of Config.Poison, rounded up. A worker that gets a
// later delivery stores that it begins (sayBegun).
func (c Config) doubt() int { return (c.Poison + 1) / 2 }
