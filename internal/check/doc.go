// Package check finds the mistakes that one file of an agent does not show: a
// sub-agent that no file defines, a cycle of calls, a glob without a match, a
// model without a key. Package configs has refused the files that are wrong on
// their own.
//
// An Error is about a definition that cannot be carried out. A Warning is about
// one that may not do what its author wants, or that lacks something here: the
// key of its model, or an agent that another worker may serve.
//
//	agents, err := configs.LoadDir("agents")
//	for _, f := range check.Agents(agents, check.Config{Models: models}) {
//		fmt.Println(f) // agents/lead.toml: sub_agents: no agent "reserchr"; …
//	}
//
// Agents reads the skills and the files that the definitions name, through
// package prompt, as a run would. It asks no model.
package check
