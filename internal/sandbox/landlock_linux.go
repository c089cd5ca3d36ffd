package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights to files.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// Every right but those to make devices, to control them, and to connect
	// to sockets.
	writeRights = readRights | deviceRights | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
	// The rights that a rule for a file may have.
	fileRights = deviceRights | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockVersion returns the version of Landlock that the kernel offers.
func landlockVersion() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("the kernel has no Landlock: landlock_create_ruleset: %w", errno)
	}
	return int(abi), nil
}

// handled is everything that a version of Landlock can refuse. A right that is
// handled and not given by a rule is refused. TCP is refused by the seccomp
// filter too, and allowed as a whole with network.
func handled(abi int, network bool) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1} // all rights of version 1
	if abi >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 && !network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if abi >= 9 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	return attr
}

// landlock restricts this thread to the files of the Config, and returns the
// version of Landlock.
func (s spec) landlock() (int, error) {
	abi, err := landlockVersion()
	if err != nil {
		return 0, err
	}
	attr := handled(abi, s.Network)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return 0, fmt.Errorf("make Landlock rules: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	r := rules{fd: int(fd), dir: s.Dir, handled: attr.Handled_access_fs}
	if err := s.addRules(r); err != nil {
		return 0, err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return 0, fmt.Errorf("restrict by Landlock: %w", errno)
	}
	return abi, nil
}

func (s spec) addRules(r rules) error {
	for _, path := range s.Write {
		if err := r.allow(path, writeRights); err != nil {
			return err
		}
	}
	for _, g := range []struct {
		paths  []string
		rights uint64
	}{
		{[]string{s.Tmp}, writeRights},
		{[]string{s.Dir}, readRights},
		{s.Read, readRights},
		{s.systemPaths(), readRights},
		{[]string{"/dev/null", "/dev/zero", "/dev/full"}, deviceRights},
		{[]string{"/dev/urandom", "/dev/random"}, unix.LANDLOCK_ACCESS_FS_READ_FILE},
	} {
		for _, path := range g.paths {
			if err := r.allow(path, g.rights); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// rules are the Landlock rules of a program.
type rules struct {
	fd      int
	dir     string
	handled uint64
}

// allow gives rights to a file, or to a directory and everything below it.
func (r rules) allow(path string, rights uint64) error {
	fd, err := r.open(path)
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	attr := pathBeneath(rights&r.handled, fd)
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: landlock_add_rule: %w", path, errno)
	}
	return nil
}

// open opens a path for a rule. Below the working directory, an earlier program
// may have put a link in the place of a directory, so links do not lead out.
func (r rules) open(path string) (int, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	rel, err := filepath.Rel(r.dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	dir, err := unix.Open(r.dir, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat2(dir, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.EXDEV) {
		return 0, fmt.Errorf("a symbolic link leads out of %s", r.dir)
	}
	return fd, err
}

// pathBeneath returns a struct landlock_path_beneath_attr. The kernel's is
// packed: 12 bytes. Go's is larger, which does no harm.
func pathBeneath(rights uint64, fd int) unix.LandlockPathBeneathAttr {
	return unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
}
