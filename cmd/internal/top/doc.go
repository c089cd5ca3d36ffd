// Package top shows a bus in a full screen: the trees at work, the agents with
// their queues and rates, and the workers with their slots. It looks at the bus
// once an interval with the readers of the commands ps, show, log and workers.
package top
