package verify

import (
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// named is an artifact that the outcome of a tool run names.
type named struct {
	run.Artifact
	tree subjects.Tree
	here spot
	// at is the time of the outcome.
	at time.Time
}

// name notes the artifacts of an outcome. The outcomes above a tool run repeat
// its artifacts.
func (c *Checker) name(n *node, o run.Outcome, m Message) {
	if o.Tool == "" {
		return
	}
	for _, a := range o.Artifacts {
		c.named = append(c.named, named{Artifact: a, tree: n.tree.id, here: n.on(m), at: m.Time})
	}
}

// NamesArtifacts reports whether a message so far names an artifact.
func (c *Checker) NamesArtifacts() bool { return len(c.named) > 0 }

// CheckArtifacts checks that the artifacts that outcomes name are stored. Call
// it after the last message and before Report. Stored returns the digest of an
// artifact, "" if it is not stored. Objects from before aged may have been
// dropped for their age; a zero aged says that none was. An outcome may name an
// object that is older than itself by the whole time of its tree: the same
// bytes are stored once. An error of stored ends the check.
func (c *Checker) CheckArtifacts(stored func(t subjects.Tree, name string) (string, error), aged time.Time) error {
	longest := max(c.longest, minLongest)
	for _, a := range c.named {
		digest, err := stored(a.tree, a.Name)
		switch {
		case err != nil:
			return err
		case digest == a.Digest:
		case digest != "":
			const text = "artifact %q is stored with other bytes: digest %s, want %s"
			c.violate(a.here, Artifact, text, a.Name, digest, a.Digest)
		case a.at.Add(-longest).Before(aged):
			c.note(a.here, Artifact, "artifact %q is not stored any more", a.Name)
		default:
			c.violate(a.here, Artifact, "artifact %q is not stored: it was removed before its age", a.Name)
		}
	}
	return nil
}
