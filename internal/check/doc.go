// Package check finds the mistakes that one file of an agent does not show: a
// sub-agent that no file defines, a cycle of calls, a glob without a match, a
// model without a key. Package configs has refused the files that are wrong on
// their own.
//
// The invariant: a definition without an Error can be carried out as it stands.
// A Warning is about a definition that works, and perhaps not as meant.
//
//	agents, err := configs.LoadDir("agents")
//	for _, f := range check.Agents(agents, check.Config{Models: models}) {
//		fmt.Println(f) // agents/lead.toml: sub_agents: no agent "reserchr"; …
//	}
//
// Agents reads the skills and the files that the definitions name, through
// package prompt, as a run would. It asks no model.
package check
