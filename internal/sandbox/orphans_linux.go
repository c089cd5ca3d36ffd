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
	end := time.After(giveUp)
	for pause := time.Millisecond; ; pause = min(2*pause, killEvery) {
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
		case <-time.After(pause):
		}
	}
}

func orphansOf(tmp string) []int {
	entry := []byte("TMPDIR=" + tmp)
	var orphans []int
	for _, pid := range allProcesses() {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // of one's own user
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
