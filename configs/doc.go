// Package configs reads agents: one TOML file each, named after the agent. A
// value that Load returns is whole and checked, its skill and workdir are paths
// that can be opened, and nothing in the file was ignored: an unknown key is
// refused, with the key that was probably meant.
//
//	name = "reviewer"                        # the file is reviewer.toml
//	description = "Reviews one change"
//	model = "anthropic/claude-sonnet-4-5"    # provider/model
//	system_prompt = "You review Go code."
//	skill = "review"                         # a file, or a directory with a SKILL.md
//	workdir = "../.."                        # relative to this file; where files are looked for
//	files = ["cmd/**/*.go"]
//	sub_agents = ["reader"]
//
//	[sub_agents_config]
//	max_depth = 3                            # 0 to 5, 0 is the default of 3
//	parallel = true
//	timeout = 120                            # seconds for each call, 0: what is left of the caller's
//
//	[delegation]
//	style = "call"                           # or "spawn", or a list: the tools with which it gives work to others
//	max_batch = 10                           # tasks of one spawn_agents
//	max_turns = 20                           # of each spawned run, then a last one to answer; 0: no budget
//
//	[policy]                                 # of the agent and all below it; a list that is not there bounds nothing
//	agents = ["reader"]                      # that may be called
//	tools = ["call_agent"]                   # that may be used
//
//	[params]
//	temperature = 0.2
//	max_tokens = 4096
//
//	[retry]
//	max_attempts = 3                         # 0 and 1: the model is asked once
//	backoff = "exponential"
//	initial = "500ms"                        # or a number of seconds
//	max = "30s"
//
// A skill is looked for relative to the file and then to the directory above
// it, and a bare name also in skills/ of both, so that agents/reviewer.toml
// finds skills/review/SKILL.md beside agents (see FindSkill). It is looked for
// when the file is read.
//
// LoadDir reads a directory of them; Watch does it again whenever one changes.
// ConfigDir is where a person's own are, Scaffold what a new one looks like.
package configs
