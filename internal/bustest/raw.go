package bustest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// PublishRaw publishes a message with a header block as it is, over a
// connection of its own, and waits until a stream has stored it. The client
// library writes no malformed header. It returns the server's answer.
func PublishRaw(dial func() (net.Conn, error), subject, header, body string) (answer string, _ error) {
	conn, err := dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	// A pipe takes nothing before its other end is read.
	if _, err := lines.ReadString('\n'); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"protocol\":1}\r\n"+
		"SUB _INBOX.raw 1\r\nHPUB %s _INBOX.raw %d %d\r\n%s%s\r\n",
		subject, len(header), len(header)+len(body), header, body); err != nil {
		return "", err
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		switch verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
		case "PING":
			if _, err := fmt.Fprint(conn, "PONG\r\n"); err != nil {
				return "", err
			}
		case "-ERR":
			return "", fmt.Errorf("%s: %w: %s", subject, errAPI, line)
		case "MSG":
			answer, err := lines.ReadString('\n')
			if err == nil && strings.Contains(answer, `"error"`) {
				err = fmt.Errorf("%s: %w: %s", subject, errAPI, answer)
			}
			return answer, err
		}
	}
}
