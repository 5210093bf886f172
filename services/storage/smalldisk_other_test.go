//go:build !linux

package storage_test

import (
	"errors"
	"testing"
)

func mountSmall(*testing.T, string, int64) error { return errors.ErrUnsupported }
