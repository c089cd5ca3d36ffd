package builtin

import (
	"net/netip"
	"testing"
)

// TestIsPublic: addresses of the public internet, and of each range that is not
// public. An IPv6 address that stands for an IPv4 address counts as that one.
func TestIsPublic(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"8.8.8.8":              true,
		"93.184.215.14":        true,
		"172.15.255.255":       true,
		"172.32.0.1":           true,
		"100.63.255.255":       true,
		"100.128.0.1":          true,
		"223.255.255.255":      true,
		"2606:2800:21f::1":     true,
		"::ffff:8.8.8.8":       true,
		"64:ff9b::8.8.8.8":     true,
		"2a00:1450:4001::200e": true,

		"0.0.0.0":         false,
		"0.1.2.3":         false,
		"10.0.0.1":        false,
		"100.64.0.1":      false,
		"100.127.255.255": false,
		"127.0.0.1":       false,
		"127.255.255.254": false,
		"169.254.169.254": false,
		"172.16.0.1":      false,
		"172.31.255.255":  false,
		"192.0.0.192":     false,
		"192.0.2.1":       false,
		"192.168.1.1":     false,
		"198.18.0.1":      false,
		"198.51.100.1":    false,
		"203.0.113.1":     false,
		"224.0.0.251":     false,
		"239.255.255.250": false,
		"240.0.0.1":       false,
		"255.255.255.255": false,

		"::":                       false,
		"::1":                      false,
		"::127.0.0.1":              false,
		"fc00::1":                  false,
		"fd00:ec2::254":            false,
		"fe80::1":                  false,
		"fe80::1%eth0":             false,
		"2606:2800:21f::1%eth0":    false,
		"fec0::1":                  false,
		"ff02::1":                  false,
		"100::1":                   false,
		"2001::7f00:1":             false,
		"2001:db8::1":              false,
		"2002:7f00:1::":            false,
		"::ffff:127.0.0.1":         false,
		"::ffff:169.254.169.254":   false,
		"::ffff:0:127.0.0.1":       false,
		"64:ff9b::127.0.0.1":       false,
		"64:ff9b::169.254.169.254": false,
		"64:ff9b::10.0.0.1":        false,
		"64:ff9b:1::8.8.8.8":       false,
	} {
		if got := isPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("isPublic(%s) = %t, want %t", addr, got, want)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("isPublic of the zero address is true, want false")
	}
}
