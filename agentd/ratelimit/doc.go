// Package limit decides which requests to a provider may begin, of all workers
// together. It is pure: the state is one small value on the bus, which workers
// change one after another by compare-and-set, and a change is Apply. Nothing
// here has a clock, and nothing here waits.
//
// The invariant it keeps, for workers that agree on the Settings: requests in
// flight are never more than Concurrent, those of one window never more than
// Requests; and from a refusal with a Retry-After until one request has
// succeeded afterwards, or goes unanswered for so long that it was not refused,
// at most that one, the probe, is in flight of those that have begun since.
//
// A window is a minute of the clock, from :00 to :00 UTC. Tokens count in the
// window in which the answer comes, so what is in flight may go beyond them.
//
// What a worker holds is written as it is, not as a difference: a change that
// is made twice, since its acknowledgement was lost, leaves the same holders.
// (Where others have made changes since, it counts requests of the window
// twice, which is the safe side.) What a worker holds is forgotten a Lease
// after its last sign of life.
//
// Time is that of the workers' own clocks. They may differ by 10 s: a lease is
// 30 s and is renewed when 20 s of it are left, so that no clock within that
// sees a living worker's end. Windows and the end of a closed gate are as exact
// as the clocks are; how many requests there are in a window is exact whatever
// they say.
//
//	next, d := state.Apply(settings, ratelimit.Step{Worker: "w1", Held: 3, Want: 2}, now)
//	// store next in place of state; then let d.Granted of those that wait begin
package ratelimit
