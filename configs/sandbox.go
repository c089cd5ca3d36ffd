package configs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Sandbox says what the commands of an agent may do. The operator of a worker
// may allow less.
type Sandbox struct {
	// Network lets commands use the network.
	Network bool
	// Write are the directories that commands may write, below the working
	// directory. Nil stands for the working directory itself.
	Write []string
	// Read are the directories and files that commands may read besides the
	// working directory and those of the system.
	Read []string
	// Env are the names of the variables that commands get from the
	// environment of the worker, besides PATH, LANG, LC_ALL, USER, LOGNAME
	// and TERM.
	Env []string
}

// Writable returns the directories that commands may write.
func (s Sandbox) Writable() []string {
	if s.Write == nil {
		return []string{"."}
	}
	return s.Write
}

// expanded returns the sandbox with the home directory in place of "~".
func (s Sandbox) expanded() (Sandbox, error) {
	var read []string
	for _, path := range s.Read {
		path, err := expandHome(path)
		if err != nil {
			return s, err
		}
		read = append(read, path)
	}
	s.Read = read
	return s, nil
}

// secretVariable matches the variables that no command gets: those that lead to
// the bus, and those with a name that ends like the name of a secret.
var secretVariable = regexp.MustCompile(
	`(?i)^(AXE|NATS)_|(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDS|CREDENTIALS)$|(^|_)PAT$`,
)

// busVariable matches the variables that lead to the bus.
var busVariable = regexp.MustCompile(`(?i)^(AXE|NATS)_`)

func checkSandbox(key string, s Sandbox) *Error {
	for _, name := range s.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "= \x00"):
			return invalid(key+".env", fmt.Sprintf("must be names of variables, got %q", name))
		case secretVariable.MatchString(name):
			return invalid(key+".env", name+" may hold a secret: no command gets it")
		}
	}
	for _, dir := range s.Write {
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return invalid(key+".write", fmt.Sprintf("%q is not below the workdir", dir))
		}
	}
	return nil
}
