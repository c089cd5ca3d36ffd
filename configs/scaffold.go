package configs

import (
	_ "embed"
	"fmt"
)

// Scaffold returns the file of a new agent. The required keys are set, and
// every other key is a comment.
func Scaffold(name string) string { return fmt.Sprintf(agentTemplate, name) }

// ScaffoldGlobal returns a new config.toml, with every key as a comment.
func ScaffoldGlobal() string { return globalTemplate }

// SampleSkill returns a SKILL.md to begin with.
func SampleSkill() string { return sampleSkill }

//go:embed skills/sample/SKILL.md
var sampleSkill string

const agentTemplate = `# This file defines one agent. The name of the file is the name of the agent.
# Keys that begin with # are not set. Remove the # to set them.
name = %q

# The description tells the callers of this agent what it does.
description = ""

# The providers are anthropic, openai and ollama.
model = "provider/model-name"

# The role of the agent, and how it works.
# system_prompt = "You are a careful reader."

# A SKILL.md file, or a directory that holds one. The path is relative to this
# file or to the directory above. A bare name also stands for skills/<name> in
# either of them.
# skill = "sample"

# Files that the agent sees from the start: glob patterns below workdir.
# files = ["README.md", "docs/**/*.md"]

# A path relative to this file. The default is the directory where axe runs.
# workdir = "."

# The agents that this agent may call.
# sub_agents = ["reader"]

# How calls are carried out.
#   max_depth: levels of runs below this agent, at most 5
#   parallel: start all calls of a turn at once, or one after the other
#   timeout: seconds for each call; 0: the time that is left to this agent
# [sub_agents_config]
# max_depth = 3
# parallel = true
# timeout = 120

# How this agent delegates.
#   style: the tools that it is offered, one style or a list of styles
#     "call": call_agent
#     "spawn": spawn_agent and spawn_agents, also without a named agent
#     "mail": fork, send, check_mail, wait and kill
#     "slash": the tools of mail as lines of text, for models without tools
#   max_batch: tasks of one spawn_agents call
#   max_turns: turns of each spawned run, before one more to answer; 0: no bound
# [delegation]
# style = "call"
# max_batch = 10
# max_turns = 0

# The actions that are permitted to this agent and to all agents below it. The
# policies of its callers hold too. A missing list permits everything, an empty
# list nothing.
#   agents: the agents that may be called
#   tools: the tools that may be used
# [policy]
# agents = ["reader"]
# tools = ["call_agent"]

# Supervision: the review of the turns of this agent and of all agents below it.
#   mode:
#     "unsupervised": no review
#     "supervised": the supervisor reviews each turn before it takes effect
#     "human": the same, and a person decides when the supervisor pauses a turn
#   agent: the supervisor
#   timeout: the time for the person's decision. The agent's own deadline bounds
#     it too: the timeout of its caller's sub_agents_config, and for a whole
#     tree the --timeout of agentd (1h).
#   on_timeout: the decision after that time, "deny" or "approve"
# [supervision]
# mode = "unsupervised"
# agent = "watcher"
# timeout = "30m"
# on_timeout = "deny"

# The budget of this agent and all runs below it; 0: no bound. The budgets of its
# callers hold too.
#   max_agents: runs
#   max_turns: model calls
#   max_tokens: input and output tokens
# [limits]
# max_agents = 100
# max_turns = 500
# max_tokens = 1000000

# The agent's memory of earlier runs.
#   path: the file of the memory; "": the default
#   last_n: entries that a run is shown; 0: all
#   max_entries: entries beyond which axe asks for a cleanup with axe gc;
#     0: no bound
# [memory]
# enabled = false
# path = ""
# last_n = 10
# max_entries = 100

# Parameters of the model. The provider has defaults for them.
# [params]
# temperature = 0.3
# max_tokens = 4096

# How a failed request to the model is repeated, if the failure may pass.
#   max_attempts: attempts, including the first
#   backoff: how the pauses grow: "exponential", "linear" or "fixed"
#   initial: the first pause
#   max: the longest pause
# [retry]
# max_attempts = 3
# backoff = "exponential"
# initial = "500ms"
# max = "30s"
`

const globalTemplate = `# Settings that all agents on this machine share.
# Keys that begin with # are not set. Remove the # to set them.
#
# Environment variables take precedence over this file: ANTHROPIC_API_KEY,
# OPENAI_API_KEY, and for each provider AXE_<NAME>_BASE_URL, for example
# AXE_OLLAMA_BASE_URL. Keep a file with API keys readable by yourself only
# (chmod 600).

# [providers.anthropic]
# api_key = ""

# [providers.openai]
# api_key = ""

# [providers.ollama]
# base_url = "http://localhost:11434"

# Rate limits: bounds on the requests of all workers on a bus together, to one
# provider with one API key. Any provider may have them. Set the same values on
# every machine.
#   max_concurrent: requests in flight
#   requests_per_minute, tokens_per_minute: in a minute of the clock
#   respect_retry_after: if the provider asks one worker to wait, all workers
#     wait. Each of the limits above turns this on.
# max_concurrent = 8
# requests_per_minute = 500
# tokens_per_minute = 200000
# respect_retry_after = true

# Where the agents' memory is kept: "file", on this machine, or "bus", shared by
# all workers.
# [memory]
# store = "file"
`
