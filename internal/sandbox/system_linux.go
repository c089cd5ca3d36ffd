package sandbox

// systemPaths lists the files and directories of the system that every program
// may read and execute, if they exist. The list leaves out the rest of /etc, of
// /dev and of /proc: it holds the secrets of services and the command lines of
// other processes. The home directory and /var are not the system.
func (s spec) systemPaths() []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
		"/nix/store", "/run/current-system", "/gnu/store", "/snap",
		"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
	}
	for _, name := range []string{
		"alternatives", "bash.bashrc", "bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies",
		"debian_version", "fonts", "gai.conf", "gitconfig", "group", "host.conf", "hostname", "hosts", "inputrc",
		"issue", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "ld-musl-x86_64.path",
		"ld-musl-aarch64.path", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "mime.types",
		"nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/certs", "profile", "protocols",
		"rpc", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "static", "terminfo",
		"timezone", "vimrc", "zoneinfo",
	} {
		paths = append(paths, "/etc/"+name)
	}
	if s.Namespaces {
		paths = append(paths, "/proc") // it shows no other processes
	} else {
		for _, name := range []string{
			"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version",
			"self", // of the program itself, not of its children
		} {
			paths = append(paths, "/proc/"+name)
		}
	}
	if s.Network {
		paths = append(paths, "/etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf",
			"/run/systemd/resolve/resolv.conf")
	}
	return paths
}
