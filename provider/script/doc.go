// Package script is a model that runs offline. Its answers are templates in a
// TOML file, filled from the request. A script is stateless, as a model is: the
// answer follows from the request alone. So any worker can ask for any turn,
// and a repeated request gets the same answer. A Script is immutable and safe
// for concurrent use.
//
// # The file
//
// The model script/NAME is the file NAME.toml in the scripts directory. The
// file lists entries. The first matching entry answers. The turn is one more
// than the number of assistant messages in the request.
//
//	[[turn]]
//	turn = 1                            # only in this turn; default: any
//	when = '{{contains "slow" .Task}}'  # only if "true"; default: always
//	latency = "200ms"                   # the time of the answer
//	text = "I ask for help."            # a template; optional beside calls
//
//	[[turn.call]]                       # any number of tool calls
//	tool = "call_agent"                 # the default
//	agent = "reader"                    # arguments of call_agent, templates
//	task = "Read {{.Item.Path}}"
//	context = "{{.Task}}"
//	each = "files"                      # one call per file; "results", "lines"
//
//	[[turn.call]]
//	tool = "search"
//	repeat = "{{.Turn}}"                # the number of calls; not beside each
//	[turn.call.arguments]               # any arguments; strings are templates
//	query = "question {{.Index}}"
//
//	[[turn.call]]
//	raw = '{"agent": '                  # the arguments as they are
//
//	[[turn]]
//	turn = 2
//	[turn.fail]                         # the answer is an error
//	category = "rate_limit"             # a provider.Category
//	message = "slow down"               # a template
//	status = 429                        # optional
//	retry_after = "1s"                  # optional
//
// A request without a matching entry is an error of the category bad_request.
//
// # Template data
//
//	.Model .Turn .System  the model, the turn and the system text
//	.ID .Parent           the ids of the run and of its parent; empty for a run
//	                      without mail tools; .Parent is empty for the root
//	.User                 the first user message
//	.Said                 the last user message
//	.Task .Context        parts of the first user message, if that is
//	                      "Task: …\n\nContext:\n…"; else .Task is all of it
//	.Files                the context files in the system text, each with
//	                      .Path .Lang .Content .Lines
//	.Results              the results of the last calls, each with
//	                      .Content .IsError .Index .Agent .Task
//	.AllResults           the results of the whole conversation
//	.Item .Index          in a call with each or repeat: the element, and its
//	                      number from 0
//
// The elements of "lines" are the lines of .Context that are not blank, or
// those of .Task if there is no context. The Index of a result is its place in
// its message. Agent and Task are arguments of its call.
//
// Files are read from the part of the system text that begins with the line "##
// Context Files". A file is a line "### path", a fence of three or more
// backticks with the language, the content, and the same fence.
//
// # Template functions
//
// Besides those of text/template:
//
//	lines TEXT               the lines of TEXT
//	grep PATTERN TEXT        the lines that match a regular expression, each
//	                         with .N and .Text; ^ and $ match at lines, and [^x]
//	                         also matches line breaks; a match of many lines
//	                         counts for the line of its beginning, or of the
//	                         beginning of the first group
//	count PATTERN TEXT       the number of lines that grep returns
//	first N LIST             at most N lines, words, files, results or matches
//	join SEPARATOR LIST      lines and words as they are, files by path, results
//	                         by content, matches as N: text
//	contains PART TEXT       whether TEXT has PART
//	trim, upper, lower TEXT
//	words TEXT               the words of TEXT, separated by blanks
//	indent N TEXT            TEXT with N spaces before every line
//	default VALUE X          X, or VALUE if X is empty
//	add N… , sub N M
//	seq N                    1 to N
//	json X                   X as JSON
//	fromJSON TEXT            the value of a JSON text: .key, index, range
package script
