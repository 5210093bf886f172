package credential_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/credential"
)

func TestSecret(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for _, tc := range []struct {
		authorization, esKey []string
		want                 string
		err                  error
	}{
		{nil, nil, "", nil},
		{[]string{"Bearer a"}, nil, "a", nil},
		{[]string{"bearer   a "}, nil, "a", nil},
		{nil, []string{"a"}, "a", nil},
		{nil, []string{""}, "", nil},
		{[]string{"Bearer a"}, []string{"a"}, "a", nil},
		{[]string{"Bearer a", "Bearer a"}, []string{"a", "a"}, "a", nil},
		{[]string{"Basic eDp5"}, []string{"a"}, "a", nil},
		{[]string{"Bearer a"}, []string{"b"}, "", credential.ErrConflict},
		{[]string{"Bearer a", "Bearer b"}, nil, "", credential.ErrConflict},
		{nil, []string{"a", "b"}, "", credential.ErrConflict},
		{[]string{"Basic eDp5"}, nil, "", credential.ErrMalformed},
		{[]string{"Bearer"}, nil, "", credential.ErrMalformed},
		{[]string{"Bearer "}, nil, "", credential.ErrMalformed},
		{[]string{"a"}, nil, "", credential.ErrMalformed},
		{[]string{""}, nil, "", credential.ErrMalformed},
		{[]string{"Bearer " + long}, nil, "", credential.ErrMalformed},
		{nil, []string{long}, "", credential.ErrMalformed},
		{nil, []string{long[:1024]}, long[:1024], nil},
	} {
		got, err := credential.Secret(tc.authorization, tc.esKey)
		require.Equal(t, tc.want, got, "%q %q", tc.authorization, tc.esKey)
		require.ErrorIs(t, err, tc.err, "%q %q", tc.authorization, tc.esKey)
	}
}
