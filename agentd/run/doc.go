// Package run is the pure state machine of one run: events in, state out, and
// what the state still owes. It has no clock, no network, no chance and no
// context; time enters as the stream's own time of an event.
//
//	         call                    answered: calls            last reply, or the timer
//	none ───────────▶ ready ──────────────────────▶ awaiting ──────────────────┐
//	  │                 ▲  │ all calls failed at once: ready again              │
//	  │                 └──┴────────────────────────────────────────────────────┘
//	  │ cancel, then call   │ cancel, or 50 turns       │ cancel
//	  └──────────────┬──────┴───────────────────────────┘
//	                 ▼
//	              failed                completed: the model's final answer is the outcome itself;
//	                                    both absorb, and owe nothing once the outcome is stored
//
// State is never stored. It is the fold of a run's messages in stream order,
// and folding is Apply over them. What is to be done is not emitted on the way
// but derived from the state (Outstanding), and whose it is stands in the state
// too (Owner): the sequence of the message that made it owed. A worker that
// holds that message acts; every other one acknowledges and forgets.
//
// Three more phases wait, each with an owner of its own:
//
//	ready ── an answer of a forked run ──▶ idle ── mail ──▶ ready
//	awaiting ── an interrupt, and then the last reply, or the timer ──▶ idle
//	ready ── calls of a supervised run ──▶ awaiting (its supervisor) ── a pause ──▶ held ── a person, or the timer ──▶ awaiting
//
// Mail is an event, and a call may take it; an entry of the log says up to
// where its writer had read (Seen), and what came after that is told with the
// next turn.
package run
