package run

// InputFor is what a call asks of the run that it makes, all that it has from its
// parent. A parent that was started with nothing in particular (nil) passes on
// the task alone.
func (s *Start) InputFor(c Call) Input {
	in := Input{Task: c.Task, Context: c.Context}
	if s == nil {
		return in
	}
	in.Policy, in.Supervision = s.Policy, s.Supervision
	if c.Op == OpReview {
		in.Review, in.Supervision = true, Supervision{}
	}
	if c.Op == OpFork {
		in.Forked = &Forked{Inherit: c.Task == ""}
	}
	if c.Spawn {
		in.Spawned = &Spawned{Cwd: c.Cwd, Turns: s.ChildTurns}
	}
	if c.AdHoc {
		in.Spawned = &Spawned{Turns: s.ChildTurns} // it has no files
		in.Spawned.AdHoc = &AdHoc{
			Model: s.Model, Temperature: s.Temperature, MaxTokens: s.MaxTokens, SubAgents: s.SubAgents, Tools: s.offered(), Slash: s.Slash,
			Sequential: s.Sequential, Timeout: s.Timeout, MaxBatch: s.MaxBatch, ChildTurns: s.ChildTurns, Retry: s.Retry,
		}
	}
	return in
}

// offered are the names of the run's tools. (Those that end it a spawned run of
// its own is offered anew.)
func (s *Start) offered() []string {
	var names []string
	for _, t := range s.Tools {
		names = append(names, t.Name)
	}
	return names
}
