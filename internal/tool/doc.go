// Package tool makes all text that a model reads about other agents: the
// definitions of tools, the errors of their calls, the results as a
// conversation, and the guidance and notices beside them. It also decides on
// each tool call. It is pure.
//
// The texts and the order of the checks are those of axe (its M5 specification,
// 3.6, 3.7 and 3.13), and of the documents about sub-agents.
//
// Two kinds of text come from elsewhere, and this package passes them on as
// they are. Packages run and agentd word the ends that they decide themselves,
// such as a timeout, a verdict or an interrupt (run/text.go). They are part of
// stored outcomes, and clients show them to people. An error of a provider or
// of a budget is worded by its own package.
package tool
