package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// commit is one event.
type commit struct {
	Hash       string `json:"commit"`
	Author     string `json:"author"`
	Email      string `json:"email"`
	Date       string `json:"date"`
	Subject    string `json:"subject"`
	Files      int    `json:"files"`
	Insertions int    `json:"insertions"`
	Deletions  int    `json:"deletions"`
}

const (
	// Git keeps NUL out of all text. Nobody types the other; a commit that had it
	// would be an error, not a wrong event.
	commitMark = '\x01'
	fieldMark  = "\x00"
	logFormat  = "%x01%H%x00%an%x00%ae%x00%aI%x00%s%x00"
)

// history calls each with every commit, the oldest first.
func history(ctx context.Context, repository string, each func(commit) error) error {
	git := exec.CommandContext(ctx, "git", "-C", repository, "log", "--reverse", "--numstat", "--format="+logFormat)
	var complaint bytes.Buffer
	git.Stderr = &complaint
	printed, err := git.StdoutPipe()
	if err != nil {
		return err
	}
	if err := git.Start(); err != nil {
		return err
	}
	err = parseHistory(bufio.NewReader(printed), each)
	if err != nil {
		// What is left unread would keep git from ending.
		printed.Close()
	}
	if ended := git.Wait(); err == nil && ended != nil {
		return fmt.Errorf("git log: %w: %s", ended, strings.TrimSpace(complaint.String()))
	}
	return err
}

func parseHistory(in *bufio.Reader, each func(commit) error) error {
	for {
		text, err := in.ReadString(commitMark)
		if text = strings.TrimSuffix(text, string(commitMark)); strings.TrimSpace(text) != "" {
			parsed, err := parseCommit(text)
			if err != nil {
				return err
			}
			if err := each(parsed); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func parseCommit(text string) (commit, error) {
	fields := strings.Split(text, fieldMark)
	if len(fields) != 6 {
		return commit{}, fmt.Errorf("git log printed %d fields of a commit, not 6", len(fields))
	}
	c := commit{Hash: fields[0], Author: fields[1], Email: fields[2], Date: fields[3], Subject: fields[4]}
	for line := range strings.Lines(fields[5]) {
		columns := strings.SplitN(line, "\t", 3)
		if len(columns) != 3 {
			continue
		}
		c.Files++
		// Binary files have "-" for both.
		insertions, _ := strconv.Atoi(columns[0])
		deletions, _ := strconv.Atoi(columns[1])
		c.Insertions += insertions
		c.Deletions += deletions
	}
	return c, nil
}

func isShallow(ctx context.Context, repository string) (bool, error) {
	printed, err := exec.CommandContext(ctx, "git", "-C", repository, "rev-parse", "--is-shallow-repository").Output()
	if err != nil {
		return false, fmt.Errorf("git rev-parse: %w", err)
	}
	return strings.TrimSpace(string(printed)) == "true", nil
}
