// Package configs reads agents. Each agent is one TOML file with the agent's
// name. The invariant: Load returns only complete, checked definitions. Skill
// and workdir are paths that a worker can open as they are. No key is ignored:
// Load refuses an unknown key, and suggests the most similar one.
//
//	name = "reviewer"                      # the file is reviewer.toml
//	description = "Reviews one change"
//	model = "anthropic/claude-sonnet-4-5"  # provider/model
//	system_prompt = "You review Go code."
//	skill = "review"                       # a file or directory, see FindSkill
//	workdir = "../.."                      # relative to this file
//	files = ["cmd/**/*.go"]                # relative to workdir
//	sub_agents = ["reader"]
//
//	[sub_agents_config]
//	max_depth = 3                          # 0 to 5; 0: the default of 3
//	parallel = true
//	timeout = 120                          # seconds; 0: the caller's time
//
//	[delegation]
//	style = "call"                         # call, spawn, mail, slash, or a list
//	max_batch = 10                         # tasks of one spawn_agents call
//	max_turns = 20                         # of each spawned run; 0: no bound
//
//	[policy]                               # of the agent and all runs below it
//	agents = ["reader"]                    # the agents that may be called
//	tools = ["call_agent"]                 # the tools that may be used
//
//	[params]
//	temperature = 0.2
//	max_tokens = 4096
//
//	[retry]
//	max_attempts = 3                       # the default; 1: no retry
//	backoff = "exponential"
//	initial = "500ms"                      # or a number of seconds
//	max = "30s"
//
// Load searches the skill relative to the file, then relative to the directory
// above. It searches a bare name also in skills/ of both directories, so that
// agents/reviewer.toml finds skills/review/SKILL.md beside agents (see
// FindSkill).
//
// LoadDir reads a directory of agents, and Watch reads it again after a change.
// ConfigDir is the directory of a person's own agents. Scaffold returns the
// file of a new agent.
package configs
