package binproto

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// A greeting is what a client says first.
type greeting struct {
	features uint32
	token    string
}

// A refusal ends a handshake.
type refusal struct {
	status  status
	message string
}

func (r *refusal) Error() string { return r.message }

// readGreeting reads a client's side of the handshake. A *refusal is for the
// client; any other error is that the connection broke.
func readGreeting(r io.Reader) (greeting, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return greeting{}, err
	}
	if [4]byte(head[:4]) != magic {
		return greeting{}, &refusal{statusBadMagic, fmt.Sprintf("expected %q first", magic[:])}
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return greeting{}, err
	}
	g := greeting{features: binary.BigEndian.Uint32(head[4:])}
	n := binary.BigEndian.Uint32(head[8:])
	if n > maxToken {
		return greeting{}, &refusal{statusAuthFailed, fmt.Sprintf("a token has at most %d bytes, got %d", maxToken, n)}
	}
	if n == 0 {
		return g, nil
	}
	token := make([]byte, n)
	if _, err := io.ReadFull(r, token); err != nil {
		return greeting{}, err
	}
	if !utf8.Valid(token) {
		return greeting{}, &refusal{statusAuthFailed, "the token is not a key"}
	}
	g.token = string(token)
	return g, nil
}

// appendReply writes a server's side of the handshake.
func appendReply(b []byte, s status, features uint32, message string) []byte {
	b = append(b, magic[:]...)
	b = append(b, byte(s))
	b = binary.BigEndian.AppendUint32(b, features)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

// admit asks whether a token may come in. As with readGreeting, a *refusal is
// for the client.
func (c *conn) admit(ctx context.Context, token string) error {
	_, err := c.door.backend.Authenticate(ctx, token)
	switch {
	case err == nil:
		return nil
	case errs.KindOf(err) != errs.Unauthenticated:
		// There is no status for "try again": closing says it.
		return err
	case token == "":
		return &refusal{statusAuthRequired, c.message(ctx, err)}
	default:
		return &refusal{statusAuthFailed, c.message(ctx, err)}
	}
}

// refusalReason is what is counted of a handshake that failed.
func refusalReason(err error) refusedFor {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.status.reason()
	}
	if _, ours := errs.From(err); ours {
		return refusedUnavailable
	}
	return refusedBroken
}
