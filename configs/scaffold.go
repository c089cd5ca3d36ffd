package configs

import (
	_ "embed"
	"fmt"
)

// Scaffold is the file of a new agent: what is required, and every other key as
// a comment.
func Scaffold(name string) string { return fmt.Sprintf(agentTemplate, name) }

// ScaffoldGlobal is a new config.toml: every key as a comment.
func ScaffoldGlobal() string { return globalTemplate }

// SampleSkill is a SKILL.md to begin with.
func SampleSkill() string { return sampleSkill }

//go:embed skills/sample/SKILL.md
var sampleSkill string

const agentTemplate = `# An agent is named after its file. Lines that begin with # are not in force yet.
name = %q

# What callers are told about this agent.
description = ""

# Providers are anthropic, openai and ollama.
model = "provider/model-name"

# Who the agent is and how it works.
# system_prompt = "You are a careful reader."

# A SKILL.md, or a directory that holds one: relative to this file or to the directory above it, or
# the name of a directory in skills/ of either.
# skill = "sample"

# Files that the agent knows from the start: globs below workdir.
# files = ["README.md", "docs/**/*.md"]

# Relative to this file; without it, the directory where axe runs.
# workdir = "."

# The agents that this one may call.
# sub_agents = ["reader"]

# How calls are carried out: levels below this agent (at most 5), all calls of a turn at once or one
# after the other, seconds for each (0: what is left of the caller's time).
# [sub_agents_config]
# max_depth = 3
# parallel = true
# timeout = 120

# With which tools it gives work to others: "call" (call_agent), "spawn" (spawn_agent and spawn_agents, also
# for agents of nobody's definition), "mail" (fork, send, check_mail, wait, kill), "slash" (the same as lines of
# text, for models that cannot call tools), or a list of them; how many tasks one spawn_agents may have, and how many
# turns each of those runs, before a last one to answer with what it has (0: no budget of its own).
# [delegation]
# style = "call"
# max_batch = 10
# max_turns = 0

# What this agent and all below it may do, within the policies of whoever calls it: the agents that may be
# called, the tools that may be used. A list that is not there bounds nothing, an empty one leaves nothing.
# [policy]
# agents = ["reader"]
# tools = ["call_agent"]

# Who watches over this agent and all below it: an agent that sees each turn that would act before anything of it is
# done (supervised), and a person where that wants to pause (human); how long the person may take, and whether the turn
# is carried out if nobody has decided by then (deny or approve). Nobody is waited for beyond the time that the agent has
# itself: that of its caller's sub_agents_config, and of a whole tree agentd's --timeout (1h), at which it ends.
# [supervision]
# mode = "unsupervised"
# agent = "watcher"
# timeout = "30m"
# on_timeout = "deny"

# Bounds on the work of this agent and all below it: runs, model calls, tokens (0: no bound). Whoever
# calls it has bounds of its own, which hold too.
# [limits]
# max_agents = 100
# max_turns = 500
# max_tokens = 1000000

# What the agent remembers of earlier runs: in which file (empty: the default), how many entries it is
# shown, and how many there may be before they should be cleaned up with axe gc.
# [memory]
# enabled = false
# path = ""
# last_n = 10
# max_entries = 100

# What the model is asked with; without them, the provider's own choice.
# [params]
# temperature = 0.3
# max_tokens = 4096

# What becomes of a request that the model's provider has failed to answer for now: the attempts in all, how
# the pauses between them grow (exponential, linear or fixed), the first pause and the longest.
# [retry]
# max_attempts = 3
# backoff = "exponential"
# initial = "500ms"
# max = "30s"
`

const globalTemplate = `# What all agents on this machine share. Lines that begin with # are not in force yet.
#
# The environment goes before this file: ANTHROPIC_API_KEY and OPENAI_API_KEY, and for any provider
# AXE_<NAME>_BASE_URL, such as AXE_OLLAMA_BASE_URL. Nobody but you should be able to read a file with keys.

# [providers.anthropic]
# api_key = ""

# [providers.openai]
# api_key = ""

# [providers.ollama]
# base_url = "http://localhost:11434"

# What all workers on a bus together may ask of a provider with one key: requests at the same time, and requests
# and tokens in a minute of the clock. With any of them, or respect_retry_after alone, a provider that wants
# to be left alone for a while is left alone by all of them. The same on every machine, for any provider:
# max_concurrent = 8
# requests_per_minute = 500
# tokens_per_minute = 200000
# respect_retry_after = true

# Where agents' memory is kept: "file", on this machine, or "bus", shared by all workers.
# [memory]
# store = "file"
`
