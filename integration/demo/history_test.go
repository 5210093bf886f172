package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseHistory(t *testing.T) {
	printed := "\x01aa\x00Ann\x00ann@example.org\x002026-01-02T03:04:05Z\x00first: a\tb\x00\n\n3\t1\tgo.mod\n-\t-\tlogo.png\n" +
		"\x01bb\x00Bob\x00bob@example.org\x002026-01-03T03:04:05Z\x00merge\x00\n"
	var got []commit
	require.NoError(t, parseHistory(bufio.NewReader(strings.NewReader(printed)), func(c commit) error {
		got = append(got, c)
		return nil
	}))
	require.Equal(t, []commit{
		{Hash: "aa", Author: "Ann", Email: "ann@example.org", Date: "2026-01-02T03:04:05Z", Subject: "first: a\tb", Files: 2, Insertions: 3, Deletions: 1},
		{Hash: "bb", Author: "Bob", Email: "bob@example.org", Date: "2026-01-03T03:04:05Z", Subject: "merge"},
	}, got)

	require.ErrorContains(t, parseHistory(bufio.NewReader(strings.NewReader("\x01aa\x00Ann")), nil), "2 fields")
	require.NoError(t, parseHistory(bufio.NewReader(strings.NewReader("")), nil))
}

func TestCheckFindsWhatIsLostOrMoved(t *testing.T) {
	loaded := &loading{hashes: map[string]place{"aa": {0, 0}, "bb": {1, 7}}}
	require.NoError(t, (&reading{at: map[string]place{"aa": {0, 0}, "bb": {1, 7}}}).check(loaded))
	require.ErrorContains(t, (&reading{at: map[string]place{"aa": {0, 0}}}).check(loaded), "bb was acknowledged and is lost")
	require.ErrorContains(t, (&reading{at: map[string]place{"aa": {0, 0}, "bb": {1, 8}}}).check(loaded), "bb was acknowledged at {1 7} and read at {1 8}")
	require.ErrorContains(t, (&reading{at: map[string]place{"aa": {0, 0}, "bb": {1, 7}, "cc": {0, 1}}}).check(loaded), "2 commits were written and 3 read")
}
