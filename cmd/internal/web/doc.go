// Package web serves the page and the HTTP API of agentd --http and axe ui. Its
// one invariant is that it stores nothing: every answer is read from the bus,
// with the same functions that the commands print, and every change is a
// message on the bus. So any number of servers may run, and a client may ask
// another one at any time.
//
// Equal reads that come together are one read of the bus. All watchers of a
// tree share one follower. So the number of clients costs the workers nothing.
package web
