package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate starts the helper in namespaces of its own: process 1 of its sandbox,
// with mounts that only it sees. A user needs a user namespace for that; root
// does without, so that files keep their owners. The helper needs
// CAP_SYS_ADMIN there for the mounts. The program does not get it.
func isolate(attr *syscall.SysProcAttr) {
	attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
}

// mount makes everything read-only for the sandbox, except Write and TMPDIR,
// and gives it a /proc with its own processes only. Landlock does the same for
// the contents of files; this is for their modes, owners and times too.
func (s spec) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, path := range append([]string{s.Tmp}, s.Write...) {
		if err := s.bind(path); err != nil {
			return err
		}
	}
	if err := setReadOnly("/"); err != nil {
		return fmt.Errorf("make mounts read-only: %w", err)
	}
	for _, path := range append([]string{s.Tmp}, s.Write...) {
		if err := s.setWritable(path); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// bind makes a mount of a directory.
func (s spec) bind(path string) error {
	fd, err := rules{dir: s.Dir}.open(path)
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	at := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := unix.Mount(at, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

func setReadOnly(path string) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, attr)
}

// setWritable makes a mount writable, with the mounts below it. Mounts that
// were read-only before the sandbox stay so.
func (s spec) setWritable(path string) error {
	fd, err := rules{dir: s.Dir}.open(path)
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr)
	if errors.Is(err, unix.EPERM) {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr)
	}
	if err != nil {
		return fmt.Errorf("make %s writable: %w", path, err)
	}
	return nil
}

// removeTempOutside removes TMPDIR by way of baseFD: in the namespaces, its
// parent directory is read-only, and it is in use as a mount.
func (s spec) removeTempOutside() {
	if s.Namespaces {
		_ = unix.Unmount(s.Tmp, unix.MNT_DETACH)
	}
	_ = removeTemp(filepath.Join("/proc/self/fd", strconv.Itoa(baseFD), filepath.Base(s.Tmp)))
}
