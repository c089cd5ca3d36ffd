// Package bus is the only package that knows NATS. It moves bytes: fenced
// writes, reads of a run's messages, pulled deliveries and their leases,
// timers, large bodies, small shared values, and the embedded server. The
// packages above it know the meaning of the bytes. Package subjects decides
// which subjects they go to.
//
// # Invariant
//
// A write with a fence is stored at the place in its subject's history that its
// writer expected, or not at all. If its fence did not hold, the error is a
// *ConflictError, which names the message in the way of the write. A retry
// after a lost acknowledgement changes nothing: the fence refuses the second
// copy.
//
//	conn, err := bus.Open(ctx, bus.Config{})
//	seq, err := conn.Write(ctx, bus.Message{
//		Subject: run.Log(), Body: b, Fence: bus.After(run.Log(), last),
//	})
//
// # Reads
//
// On a stream with replicas any replica answers these reads, and it may lag.
// Only LastSeq has the answer of the stream's leader.
//
//	First           the first message of a subject
//	LastPerSubject  the last message of each matching subject, as of one moment
//	LastSeq         the sequence of the last matching message, from the leader
//	ReadSince       all messages after a sequence, by scan or by subject
//	ReadByScan      the same; its cost grows with the stream since that sequence
//	ReadBySubject   the same; its cost grows with the matching messages
//	ScanUntil       ReadByScan, repeated until a given message is read
//	Scan            ReadByScan, page by page
package bus
