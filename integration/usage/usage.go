// Package usage reads from /proc what a process has used.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used since it began.
type Usage struct {
	// CPU is user and system time of all threads.
	CPU time.Duration
	// RSS and MaxRSS are resident bytes, now and at most.
	RSS, MaxRSS int64
	Threads     int
}

// tick is the unit of CPU times in /proc. Linux shows it as 100 a second to all
// programs, whatever the kernel counts in.
const tick = time.Second / 100

// Of reads what a process has used so far.
func Of(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	cpu, err := parseCPU(stat)
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Usage{
		CPU:     cpu,
		RSS:     parseField(status, "VmRSS:") << 10,
		MaxRSS:  parseField(status, "VmHWM:") << 10,
		Threads: int(parseField(status, "Threads:")),
	}, nil
}

// ResetPeak makes MaxRSS count from now on.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// parseCPU reads fields 14 and 15 of /proc/PID/stat. The second field, the
// program's name, may hold spaces and parentheses, so the count begins after the
// last one.
func parseCPU(stat []byte) (time.Duration, error) {
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat has %d fields after the name, expected 13 or more", len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// parseField reads the number behind a name; 0 if there is none.
func parseField(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.ParseInt(fields[0], 10, 64)
				return n
			}
		}
	}
	return 0
}
