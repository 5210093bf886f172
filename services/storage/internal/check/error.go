package check

import (
	"errors"
	"fmt"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

const (
	invalid          = storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD
	corrupt          = storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE
	tooLarge         = storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE
	invalidTimestamp = storagev1.ErrorCode_ERROR_CODE_INVALID_TIMESTAMP
)

// Error is why an append is refused.
type Error struct {
	Code storagev1.ErrorCode
	// Record is the ordinal of the record in the append; -1 when it is not
	// about one.
	Record int
	// Reason says what was expected and what came. It is for the producer and
	// has nothing in it that the producer did not send.
	Reason string
}

func (e *Error) Error() string {
	if e.Record < 0 {
		return e.Reason
	}
	return fmt.Sprintf("record %d: %s", e.Record, e.Reason)
}

func (c *checker) refuse(code storagev1.ErrorCode, reason string) error {
	return &Error{Code: code, Record: -1, Reason: reason}
}

// refuseRecord is about a record of the batch that is being checked.
func (c *checker) refuseRecord(ordinal int32, code storagev1.ErrorCode, reason string) error {
	return &Error{Code: code, Record: c.before + int(ordinal), Reason: reason}
}

// batchError gives an error of package recordbatch its code. Damage on the way
// is told from a producer's fault, since trying again helps against the first.
func (c *checker) batchError(err error) error {
	code := invalid
	switch {
	case errors.Is(err, recordbatch.ErrCRC), errors.Is(err, recordbatch.ErrMagic):
		code = corrupt
	case errors.Is(err, recordbatch.ErrInflate):
		code = tooLarge
	}
	return c.refuse(code, err.Error())
}
