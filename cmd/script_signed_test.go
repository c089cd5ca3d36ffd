package cmd_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// addWorker makes NAME.creds in a directory of axe auth init, as nsc does with
// the commands of axe auth plan: a worker that is bound to an agent.
func addWorker(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 3, "addworker DIR NAME AGENT")
	dir, name := ts.MkAbs(args[0]), args[1]
	agent, err := subjects.ParseAgent(args[2])
	ts.Check(err)
	seed, err := os.ReadFile(filepath.Join(dir, "keys", "account.nk"))
	ts.Check(err)
	account, err := nkeys.ParseDecoratedNKey(seed)
	ts.Check(err)
	user, err := nkeys.CreateUser()
	ts.Check(err)
	public, err := user.PublicKey()
	ts.Check(err)
	p := roles.Worker.Permissions(roles.Scope{User: name, Agents: []subjects.Agent{agent}})
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	claims.Pub.Allow.Add(p.Publish...)
	claims.Pub.Deny.Add(p.DenyPublish...)
	claims.Sub.Allow.Add(p.Subscribe...)
	claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: roles.ResponseTime}
	token, err := claims.Encode(account)
	ts.Check(err)
	seed, err = user.Seed()
	ts.Check(err)
	creds, err := jwt.FormatUserConfig(token, seed)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, name+".creds"), creds, 0o600))
}

// forge stores a message as the worker with creds would store an outcome: it
// signs the message if its key has a grant.
func forge(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 3, "forge CREDS SUBJECT QUOTED")
	text, err := strconv.Unquote(`"` + args[2] + `"`)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{
		URL: ts.Getenv("NATS_URL"), TLSCA: ts.Getenv("NATS_CA"), Creds: ts.MkAbs(args[0]),
	}})
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.Provisioned(ctx))
	cards, err := conn.Directory(ctx)
	ts.Check(err)
	watching, stop := context.WithCancel(ctx)
	caught, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = cards.Watch(watching, func(string, []byte) {}, func() { close(caught) })
	}()
	<-caught
	_, err = conn.Write(ctx, bus.Message{Subject: args[1], Body: []byte(text), ID: args[1], Sign: true})
	stop()
	<-ended
	ts.Check(err)
}
