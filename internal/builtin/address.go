package builtin

import (
	"net/netip"
	"slices"
)

// isPublic reports whether an address is one of the public internet. An address
// that stands for an IPv4 address is public if that one is. Everything else is
// not: the machine itself, its networks, the metadata services of clouds, and
// all ranges that are reserved.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	if b := addr.As16(); within(addr, "64:ff9b::/96") { // NAT64
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.Is4() {
		return !within(addr,
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
			"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	}
	// 2002::/16 (6to4) and 2001::/32 (Teredo) lead to IPv4 addresses.
	return within(addr, "2000::/3") && !within(addr, "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
}

// within reports whether one of the prefixes contains an address. None contains
// an address with a zone.
func within(addr netip.Addr, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return netip.MustParsePrefix(p).Contains(addr) })
}
