package run

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Artifact is a file of a tree, as outcomes of tool runs and agents name it.
// Its bytes are in the object store (bus.ArtifactObject).
type Artifact struct {
	// Name is a file name without a directory. It is unique in the tree.
	Name string `json:"name"`
	// MediaType is for example "text/plain". It may be empty.
	MediaType string `json:"type,omitzero"`
	// Size is the number of bytes.
	Size int64 `json:"size"`
	// Digest is the SHA-256 of the bytes, in hex.
	Digest string `json:"sha256"`
	// Path is the path of the tool run that stored the artifact first.
	Path string `json:"path"`
}

// MaxArtifacts bounds the artifacts that one outcome names.
const MaxArtifacts = 200

// maxArtifactName bounds the name of an artifact, in bytes.
const maxArtifactName = 100

// CheckArtifactName returns what is wrong with the name of an artifact, nil if
// it is one. A name has 1 to 100 bytes of printable characters, none of
// / \ : * ? " < > |, and no dot or space at an end. A dot inside is fine. Names
// that Windows reserves, such as NUL, are not refused.
func CheckArtifactName(name string) error {
	bad := func(r rune) bool { return !strconv.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) }
	switch {
	case name == "":
		return errors.New("the name of an artifact must not be empty")
	case len(name) > maxArtifactName:
		return fmt.Errorf("the name of an artifact has at most %d bytes, got %d", maxArtifactName, len(name))
	case strings.ToValidUTF8(name, "") != name || strings.ContainsFunc(name, bad):
		return fmt.Errorf(`the name of an artifact is a file name of printable characters without / \ : * ? " < > |, `+
			"got %q", name)
	case strings.Trim(name, ". ") != name:
		return fmt.Errorf("the name of an artifact has no dot and no space at its ends, got %q", name)
	}
	return nil
}

// Artifacts returns the artifacts that the outcomes of the calls and the
// reviews name, in call order, each once, and at most MaxArtifacts. More is the
// number of the others, with those that an outcome has left out. One that
// several outcomes have left out counts several times.
func (ts Turns) Artifacts() (all []Artifact, more int) {
	seen := map[string]bool{}
	for _, t := range ts {
		for _, o := range append(t.Outcomes[:len(t.Outcomes):len(t.Outcomes)], t.Verdict) {
			if o == nil {
				continue
			}
			more += o.MoreArtifacts
			for _, a := range o.Artifacts {
				switch {
				case seen[a.Name]:
				case len(all) == MaxArtifacts:
					more++
				default:
					all = append(all, a)
				}
				seen[a.Name] = true
			}
		}
	}
	return all, more
}
