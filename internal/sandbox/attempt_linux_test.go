package sandbox

import (
	"context"
	"fmt"
	"os"
)

// attempt tries one thing. It returns 0 if that worked, and 1 with a reason if
// not.
func attempt(name string, args []string) int {
	try, ok := attempts()[name]
	if !ok {
		fmt.Println("no such attempt:", name)
		return 2
	}
	if err := try(args); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func attempts() map[string]func(args []string) error {
	return map[string]func(args []string) error{
		"worker": work,
	}
}

// work is a worker that runs two processes in one sandbox, until it is killed.
func work(args []string) error {
	dir, base, seconds := args[0], args[1], args[2]
	c := Config{Dir: dir, TempBase: base, Off: args[3] == "true", Env: []string{"PATH=" + os.Getenv("PATH")}}
	script := "(setsid sleep " + seconds + " &); sleep " + seconds
	_, err := Run(context.Background(), c, []string{"sh", "-c", script}, nil)
	return err
}
