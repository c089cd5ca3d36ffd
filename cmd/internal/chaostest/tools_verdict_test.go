package chaostest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// toolVerdict is the result of the scenario tools.
type toolVerdict struct {
	verdict
	calls int
	// unknown counts the calls that may have taken effect, and happened
	// those of them that have.
	unknown, happened int
	// again counts the effects beyond the first one of an idempotent call.
	again int
}

// effects holds the nonces of the commands that have run, one for each time.
type effects map[effectOf][]string

// effectOf is the key of a call, and the tool effect of its command.
type effectOf struct {
	key    string
	effect run.ToolEffect
}

// readEffects reads the file to which the commands append.
func (f *toolFleet) readEffects() (effects, error) {
	b, err := os.ReadFile(filepath.Join(f.work, effectsFile))
	if err != nil {
		return nil, err
	}
	all := effects{}
	for line := range strings.Lines(string(b)) {
		parts := strings.Fields(line)
		if len(parts) != 3 {
			return nil, fmt.Errorf("the line %q in the file of effects is not whole", line)
		}
		of := effectOf{parts[0], run.ToolEffect(parts[1])}
		all[of] = append(all[of], parts[2])
	}
	return all, nil
}

// judgeTools compares the outcomes of all calls with the effects of the
// commands and with the files.
func (f *toolFleet) judgeTools(r *record) *toolVerdict {
	v := &toolVerdict{}
	v.lost, v.wrong = f.load.lost, f.load.wrong
	all, err := f.readEffects()
	if err != nil {
		v.blame("%v", err)
	}
	ofTree := map[subjects.Tree]int{}
	for at, c := range r.calls {
		outcomes := r.outcomes[c.reply]
		switch {
		case len(outcomes) == 0:
			v.lost++
			v.blame("%s has no outcome", at)
			continue
		case len(outcomes) > 1:
			v.doubled += len(outcomes) - 1
			v.blame("%s has %d outcomes:\n%s", at, len(outcomes), r.treeMessages(at.Tree.String()))
		}
		if c.tool == nil {
			continue
		}
		v.calls++
		ofTree[at.Tree]++
		v.call(at, c.tool, outcomes[0], all)
		if outcomes[0].kind == run.KindUnknown {
			f.excused(v, r, at, outcomes[0])
		}
	}
	for of, nonces := range all {
		v.blame("%d effects %s with the key %q, which no call has", len(nonces), of.effect, of.key)
	}
	trees := int(f.load.ended.Load())
	if len(ofTree) != trees {
		v.blame("%d trees on the stream, %d were submitted", len(ofTree), trees)
	}
	for tree, n := range ofTree {
		if n != toolsOfTree {
			v.blame("tree %s has %d calls of tools, want %d", tree, n, toolsOfTree)
		}
		b, err := os.ReadFile(filepath.Join(f.work, tree.String(), "a.txt"))
		if err != nil || string(b) != "two\n" {
			v.blame("the file of tree %s is %q, %v", tree, b, err)
		}
	}
	for _, d := range r.dead {
		v.blame("dead letter %s", d)
	}
	if kills := f.hits.count(killWorker); v.unknown > kills*toolSlots {
		v.blame("%d kills of workers with %d slots left %d outcomes unknown", kills, toolSlots, v.unknown)
	}
	return v
}

// excused checks that the worker of a call that may have taken effect was
// killed between the begin of the call and its outcome. The server may store
// the last write of a worker after the worker's death.
func (f *toolFleet) excused(v *toolVerdict, r *record, at subjects.Run, o storedTurn) {
	begun := r.turns[turnKey{r.calls[at].label, 1}]
	if !f.hits.struck(begun.worker, begun.at, o.at, clockSlack, killWorker) {
		v.blame("%s is unknown, though its worker %s was not killed:\n%s",
			at, begun.worker, r.treeMessages(at.Tree.String()))
	}
}

// call compares the outcome of a call with the effects of its command, and
// removes these from all.
func (v *toolVerdict) call(at subjects.Run, in *run.ToolInput, o storedTurn, all effects) {
	if o.kind != "" && o.kind != run.KindUnknown {
		v.blame("%s at %s ended as %s", in.Name, at, o.kind)
	}
	unknown := o.kind == run.KindUnknown
	ofToolset := in.Name == "note"
	if in.Name != "run_command" && !ofToolset {
		// An edit tells from its file whether it was made.
		if unknown {
			v.blame("%s at %s may have taken effect, which its file tells", in.Name, at)
		}
		return
	}
	of := effectOf{at.Tree.String() + "." + at.Path.String(), run.ToolOnce}
	if ofToolset {
		of.effect = run.ToolIdempotent
	}
	nonces := all[of]
	n := len(nonces)
	delete(all, of)
	switch {
	case of.effect == run.ToolIdempotent:
		if unknown || n == 0 {
			v.blame("the idempotent command %s ended as %q after the effects %v", of.key, o.kind, nonces)
		}
		v.again += max(0, n-1)
	case unknown && n <= 1:
		v.unknown++
		v.happened += n
	case n != 1:
		v.blame("the command %s may run once, ended as %q and had the effects %v", of.key, o.kind, nonces)
	}
}
