//go:build unix

package binary

import (
	"syscall"
	"time"
)

// quiet says that the server has neither closed the connection nor said anything
// that nobody asked for. It does not wait. Where it cannot tell it says yes.
func (s *session) quiet() bool {
	if s.in.Buffered() > 0 {
		return false
	}
	socket, ok := s.socket.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	// The deadline of the last request may be over.
	if err != nil || s.conn.SetDeadline(time.Time{}) != nil {
		return true
	}
	var n int
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, _, readErr = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		// Ready or not, there is nothing to wait for.
		return true
	})
	if err != nil {
		return true
	}
	return n <= 0 && (readErr == syscall.EAGAIN || readErr == syscall.EWOULDBLOCK)
}
