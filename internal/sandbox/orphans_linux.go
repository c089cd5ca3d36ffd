package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killOrphans kills the processes that a helper left behind when it was killed
// itself. They have the TMPDIR of their run in the environment that they were
// started with.
func killOrphans(tmp string) {
	again := time.NewTicker(killEvery)
	defer again.Stop()
	end := time.After(giveUp)
	for {
		orphans := orphansOf(tmp)
		if len(orphans) == 0 {
			return
		}
		for _, pid := range orphans {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-end:
			return
		case <-again.C:
		}
	}
}

func orphansOf(tmp string) []int {
	entry := []byte("TMPDIR=" + tmp)
	var orphans []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ") // of one's own user
		if err != nil {
			continue
		}
		for field := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(field, entry) {
				orphans = append(orphans, pid)
				break
			}
		}
	}
	return orphans
}
