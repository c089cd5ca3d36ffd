package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestHandledGrows: each version of Landlock refuses everything that the
// version before refuses. If the network is granted, no right to it is refused.
func TestHandledGrows(t *testing.T) {
	t.Parallel()
	for abi := 2; abi < 12; abi++ {
		before, now := handled(abi-1, false), handled(abi, false)
		if before.Handled_access_fs&^now.Handled_access_fs != 0 ||
			before.Handled_access_net&^now.Handled_access_net != 0 || before.Scoped&^now.Scoped != 0 {
			t.Errorf("version %d lacks a refusal of version %d: %+v, %+v", abi, abi-1, now, before)
		}
	}
	if now := handled(4, true); now.Handled_access_net != 0 {
		t.Errorf("the network is granted and refused: %+v", now)
	}
}

// TestRightsThatAreNeverGiven: the rights to make or to control devices, and to
// connect to sockets, are never given. A directory that may be written gets
// every other right.
func TestRightsThatAreNeverGiven(t *testing.T) {
	t.Parallel()
	const never = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	if got := (writeRights | readRights | deviceRights) & never; got != 0 {
		t.Errorf("the rights %#x are given, want them never given", got)
	}
	if all := handled(9, false).Handled_access_fs; all != writeRights|never {
		t.Errorf("Landlock 9 handles the rights %#x, want %#x", all, writeRights|never)
	}
}
