package provider

import (
	"fmt"
	"strings"
)

// SplitModel takes a model's full name apart, provider/model, at the first
// slash: the model's own name may have more of them. The texts of its errors
// are axe's.
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
