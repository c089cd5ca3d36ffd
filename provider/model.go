package provider

import (
	"fmt"
	"strings"
)

// SplitModel splits a model's full name, provider/model, at the first slash.
// The model's own name may contain slashes. The texts of the errors are those
// of the axe specification.
func SplitModel(full string) (vendor, name string, err error) {
	vendor, name, ok := strings.Cut(full, "/")
	switch {
	case !ok:
		return "", "", fmt.Errorf("invalid model format %q: expected provider/model-name", full)
	case vendor == "":
		return "", "", fmt.Errorf("invalid model format %q: empty provider", full)
	case name == "":
		return "", "", fmt.Errorf("invalid model format %q: empty model name", full)
	}
	return vendor, name, nil
}
