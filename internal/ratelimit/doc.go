// Package ratelimit admits requests to a provider account within a limit that
// all workers share. The state is one small value on the bus, which workers
// change one after the other by compare-and-set. State, its Apply, and ResultOf
// are pure: they have no clock and do not wait. A Limiter is the shell around
// them.
//
// The package keeps an invariant for workers that agree on the Settings.
// Requests in flight are never more than Concurrent. Requests of one window are
// never more than Requests. A refusal with a Retry-After closes the account. Of
// the requests that begin after it, at most one, the probe, is in flight until
// one has succeeded, or has gone unanswered for so long that it was not
// refused.
//
// A window is a minute of the clock, from :00 to :00 UTC. Tokens count in the
// window in which the answer comes, so requests in flight may go beyond them.
//
// A worker writes the number of its requests in flight, not a difference. A
// change that is made twice, because its acknowledgement was lost, leaves the
// same holders. If other workers have made changes in between, the requests of
// the window are counted twice, which is the safe side. The requests of a
// worker are forgotten one Lease after its last sign of life.
//
// Time is that of the server that leads the first stream of runs, as each
// worker has measured it (bus.Clocks). The measurements may differ by 10 s. A
// lease is 30 s and is renewed when 20 s of it are left, so no worker within
// that difference sees the end of a living worker's lease. The edges of a
// window and the end of a closed time are as exact as the measurements are. The
// number of requests in a window is exact.
//
//	limiters := ratelimit.New(conn, "worker-1", log)
//	// One goroutine runs limiters.Run(ctx). Then, for each request:
//	release, err := limiters.Of(account, settings).Acquire(ctx, draining)
//	if err != nil {
//		return err
//	}
//	resp, err := provider.Send(ctx, req)
//	release(resp, err)
package ratelimit
