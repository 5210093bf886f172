//go:build !unix

package binary

// quiet cannot tell here, and says yes.
func (s *session) quiet() bool { return s.in.Buffered() == 0 }
