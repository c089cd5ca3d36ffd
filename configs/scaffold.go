package configs

import (
	_ "embed"
	"fmt"
)

// Scaffold returns the file of a new agent. The agent runs as it is, with a key
// for its model.
func Scaffold(name string) string { return fmt.Sprintf(agentTemplate, name) }

// ScaffoldGlobal returns a new config.toml, with every key as a comment.
func ScaffoldGlobal() string { return globalTemplate }

// SampleSkill returns a SKILL.md to begin with.
func SampleSkill() string { return sampleSkill }

//go:embed skills/sample/SKILL.md
var sampleSkill string

const agentTemplate = `# All keys: https://github.com/axebus/axe/blob/main/docs/agents.md
name = %q
description = "Answers questions in a few sentences"
model = "openai/gpt-5"
system_prompt = "You answer questions in a few sentences."
`

const globalTemplate = `# Settings that all agents on this machine share.
# Keys that begin with # are not set. Remove the # to set them.
#
# Environment variables take precedence over this file: ANTHROPIC_API_KEY,
# OPENAI_API_KEY, and for each provider AXE_<NAME>_BASE_URL, for example
# AXE_OLLAMA_BASE_URL. Keep a file with API keys readable by yourself only
# (chmod 600). The key may also be in a file of its own (api_key_file), or come
# from a command (api_key_command).

# [providers.anthropic]
# api_key = ""

# [providers.openai]
# api_key = ""

# [providers.ollama]
# base_url = "http://localhost:11434"

# Any provider may have an idle timeout: the seconds in which an answer that has
# begun has to bring a kilobyte. 0 is any time.
# idle_timeout = 60

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

# Which outcomes of runs count: only those of workers whose key has a grant for
# the agent. The signers are the public keys of the accounts that make grants.
# [outcomes]
# require_signed = false
# signers = []

# Prices, for axe ps, show, log and agents stats and the page to show costs: in
# units of the currency for a million tokens, from the price list of the
# provider. Without cached_input, cached input costs as much as other input.
# [prices]
# currency = "USD"

# [prices.models."openai/gpt-5"]
# input = 0.0
# cached_input = 0.0
# output = 0.0
`
