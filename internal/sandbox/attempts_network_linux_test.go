package sandbox

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// networkAttempts has the attempts with sockets, by name.
func networkAttempts() map[string]attemptFunc {
	return map[string]attemptFunc{
		"dial": func(args []string) error {
			return dial(args[0], args[1])
		},
		"mptcp": func(args []string) error {
			address, err := net.ResolveTCPAddr("tcp4", args[0])
			if err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			if err != nil {
				return err
			}
			return unix.Connect(fd, &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())})
		},
		"listen": func([]string) error {
			_, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
			return err
		},
		"send": func(args []string) error {
			c, err := (&net.Dialer{}).DialContext(context.Background(), "udp4", args[0])
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("x"))
			return err
		},
		"dns": ask,
		"socket": func(args []string) error {
			_, err := unix.Socket(number(args[0]), number(args[1]), number(args[2]))
			return err
		},
	}
}

// dial connects to an address. For Unix datagrams it only makes a socket.
func dial(network, address string) error {
	if network != "unixgram" {
		_, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), network, address)
		return err
	}
	_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	return err
}

// ask sends a query to a DNS server that does not answer. It returns nil if it
// could connect to the server.
func ask(args []string) error {
	asked := make(chan error, 10)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "udp4", args[0])
		select {
		case asked <- err:
		default:
		}
		return c, err
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, _ = resolver.LookupHost(ctx, "example.com.")
	return <-asked
}
