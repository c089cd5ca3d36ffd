// Package script is a model that runs offline: its answers are templates in a
// TOML file, filled from the request. It is stateless, as a model is: what it
// answers follows from the request alone, so any worker can ask it for any
// turn, and asking again gives the same answer. A Script is immutable and safe
// for concurrent use.
//
// # The file
//
// The model script/NAME is the file NAME.toml in the scripts directory. It
// lists entries, which are tried in their order; the first that fits answers.
// The turn is one more than the number of assistant messages in the request.
//
//	[[turn]]
//	turn = 1                                  # only in this turn; left out: in any
//	when = '{{contains "slow" .Task}}'        # only if this renders to "true"; left out: always
//	latency = "200ms"                         # how long the answer takes
//	text = "I ask for help."                  # a template; may be left out beside calls
//
//	[[turn.call]]                             # any number of tool calls
//	tool = "call_agent"                       # the default
//	agent = "reader"                          # the arguments of call_agent, all templates
//	task = "Read {{.Item.Path}}"
//	context = "{{.Task}}"
//	each = "files"                            # one call per file; also "results" and "lines"
//
//	[[turn.call]]
//	tool = "search"
//	repeat = "{{.Turn}}"                      # so many calls; it and each exclude each other
//	[turn.call.arguments]                     # any arguments; strings in it are templates
//	query = "question {{.Index}}"
//
//	[[turn.call]]
//	raw = '{"agent": '                        # arguments exactly so, malformed if you like
//
//	[[turn]]
//	turn = 2
//	[turn.fail]                               # the answer is an error
//	category = "rate_limit"                   # a provider.Category
//	message = "slow down"                     # a template
//	status = 429                              # optional
//	retry_after = "1s"                        # optional
//
// A request that no entry fits is an error of the category bad_request.
//
// # Template data
//
//	.Model .Turn .System     of the request
//	.ID .Parent              of the run and of the one above it, where it can write to others; otherwise empty
//	.User                    its first user message
//	.Said                    its last one
//	.Task .Context           parsed from "Task: …\n\nContext:\n…"; other text is all .Task
//	.Files                   the context files in the system text, each with .Path .Lang .Content .Lines
//	.Results                 of the calls in the last answer: .Content .IsError .Index .Agent .Task
//	.AllResults              those of the whole conversation
//	.Item .Index             in a call with each or repeat: the element, and its number from 0
//
// The elements of "lines" are the lines of .Context, or of .Task if there is
// none, without blank ones. Index counts a result's place in its message; Agent
// and Task are the arguments of the call that it answers.
//
// Files are read from the part of the system text that begins with the line "##
// Context Files": a line "### path", then the content between a line of three
// or more backticks and the language, and a line of just as many backticks.
//
// # Template functions
//
// Besides those of text/template:
//
//	lines TEXT                 its lines
//	grep PATTERN TEXT          the lines where a regular expression matches, with .N and .Text; ^ and $ match
//	                           at lines, [^x] matches line breaks too; a match of many lines counts for the
//	                           line where it begins or, if there is a group, where the first group does
//	count PATTERN TEXT         how many lines grep finds
//	first N LIST               at most N elements
//	join SEPARATOR LIST        files by path, results by content, matches as N: text
//	contains PART TEXT         whether PART is in TEXT
//	trim, upper, lower TEXT
//	words TEXT                 what stands between its blanks
//	indent N TEXT              every line moved N spaces to the right
//	default VALUE X            X, or VALUE if X is empty
//	add N… , sub N M
//	seq N                      1 to N
//	json X                     X as JSON
//	fromJSON TEXT              the value of a JSON text: .key, index, range
package script
