// Package run is the pure state machine of one run. Events go in; the state and
// the effects that it owes come out. The package has no clock, no network, no
// random numbers and no context. Time enters as the stream's time of an event.
//
//	none ── call ──▶ ready
//	ready ── an answer with calls ──▶ awaiting
//	awaiting ── the last outcome, or the timer ──▶ ready
//	ready ── an answer without calls ──▶ completed
//	ready ── a failure of the model ──▶ failed
//	none ── a cancel message, then the call ──▶ failed
//	any other phase ── a cancel message ──▶ failed
//
// Some kinds of runs wait in other ways, each with an owner of its own:
//
//	ready ── an answer of a fork ──▶ idle ── mail ──▶ ready
//	ready ── an interrupt, then its log entry ──▶ idle
//	awaiting ── an interrupt, then the last outcome or the timer ──▶ idle
//	ready ── an answer of a supervised run ──▶ awaiting (its supervisor)
//	awaiting (its supervisor) ── continue ──▶ awaiting (its calls)
//	awaiting (its supervisor) ── pause ──▶ held
//	held ── a person, or the timer ──▶ awaiting (its calls), or ready
//	held ── an interrupt ──▶ idle
//
// A tool run is ready until its outcome is stored. It waits for a person if its
// tool may have taken effect, and the agent's file asks for that, or if its
// tool asks for input. It waits for a task if its tool's server goes on with
// one:
//
//	ready ── the log says that it may have taken effect ──▶ held
//	held ── a person: done ──▶ completed
//	held ── a person: again ──▶ ready
//	held ── a person: fail ──▶ failed
//	ready ── the log says that the tool asks ──▶ held ── a person: answer ──▶ ready
//	ready ── the log has a task of the server ──▶ polling
//	polling ── the log says that the task asks ──▶ held ── a person: answer ──▶ polling
//
// An answer leaves the run ready if the turn waits for none of its calls. A run
// that becomes ready and has no turn left fails. Completed and failed absorb. A
// run in either owes nothing once its outcome is stored.
//
// State is never stored. It is the fold of a run's messages in stream order:
// Decode makes an event of a message, and Apply folds it. The effects are not
// emitted on the way but derived from the state (Outstanding). The state also
// names their owner (Owner): the sequence of the message that made them owed. A
// worker that holds this message carries them out. A worker that holds another
// message acknowledges it.
//
// Mail is an event, and a call may take it. A log entry says how far its writer
// had read (Seen). After an entry with which the run becomes idle, the model is
// told of later mail in the next turn.
package run
