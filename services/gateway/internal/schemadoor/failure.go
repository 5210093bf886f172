package schemadoor

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// The codes of errors, which serializers act on. They are the field's.
const (
	codeUnauthenticated      = 40101
	codeDenied               = 40301
	codeNoSubject            = 40401
	codeNoVersion            = 40402
	codeNoSchema             = 40403
	codeSubjectDeleted       = 40404
	codeSubjectNotDeleted    = 40405
	codeVersionDeleted       = 40406
	codeVersionNotDeleted    = 40407
	codeNoSubjectConfig      = 40408
	codeNoSubjectMode        = 40409
	codeIncompatible         = 409
	codeInvalidSchema        = 42201
	codeInvalidVersion       = 42202
	codeInvalidCompatibility = 42203
	codeInvalidMode          = 42204
	codeNotPermitted         = 42205
	codeReferenced           = 42206
	codeInvalidSubject       = 42208
	codeStore                = 50001
)

// A failure is an answer that is not the one hoped for.
type failure struct {
	status, code int
	message      string
}

func (f failure) Error() string { return f.message }

// byReason has the failures of errors of the registry, by their reasons.
var byReason = map[string]failure{
	"SUBJECT_NOT_FOUND":     {status: http.StatusNotFound, code: codeNoSubject},
	"VERSION_NOT_FOUND":     {status: http.StatusNotFound, code: codeNoVersion},
	"SCHEMA_NOT_FOUND":      {status: http.StatusNotFound, code: codeNoSchema},
	"INVALID_SCHEMA":        {status: http.StatusUnprocessableEntity, code: codeInvalidSchema},
	"INVALID_SUBJECT":       {status: http.StatusUnprocessableEntity, code: codeInvalidSubject},
	"INCOMPATIBLE_SCHEMA":   {status: http.StatusConflict, code: codeIncompatible},
	"INVALID_COMPATIBILITY": {status: http.StatusUnprocessableEntity, code: codeInvalidCompatibility},
	"INVALID_MODE":          {status: http.StatusUnprocessableEntity, code: codeInvalidMode},
	"SUBJECT_READ_ONLY":     {status: http.StatusUnprocessableEntity, code: codeNotPermitted},
	"SCHEMA_REFERENCED":     {status: http.StatusUnprocessableEntity, code: codeReferenced},
}

// byKind has those of all others.
var byKind = map[errs.Kind]failure{
	errs.InvalidArgument:    {status: http.StatusBadRequest, code: http.StatusBadRequest},
	errs.FailedPrecondition: {status: http.StatusBadRequest, code: http.StatusBadRequest},
	errs.NotFound:           {status: http.StatusNotFound, code: http.StatusNotFound},
	errs.Unauthenticated:    {status: http.StatusUnauthorized, code: codeUnauthenticated},
	errs.PermissionDenied:   {status: http.StatusForbidden, code: codeDenied},
	errs.ResourceExhausted:  {status: http.StatusTooManyRequests, code: http.StatusTooManyRequests},
	errs.Unimplemented:      {status: http.StatusNotImplemented, code: http.StatusNotImplemented},
	errs.Unavailable:        {status: http.StatusServiceUnavailable, code: http.StatusServiceUnavailable},
	errs.DeadlineExceeded:   {status: http.StatusServiceUnavailable, code: http.StatusServiceUnavailable},
}

// fail answers a request that failed, with {"error_code","message"}.
func (d *door) fail(ctx context.Context, w http.ResponseWriter, r *http.Request, err error) {
	var f failure
	if !errors.As(err, &f) {
		// What is not meant for callers goes to the log.
		masked, _ := errs.From(errs.Mask(ctx, d.logger, err))
		f = failureOf(masked, r.PathValue("version") != "")
		if after, ok := errs.RetryAfter(err); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		}
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="sluice"`)
	}
	write(w, f.status, struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}{f.code, f.message})
}

// failureOf is the failure of an error about a subject, or a version of one.
func failureOf(err *errs.Error, ofVersion bool) failure {
	f, ok := byReason[err.Reason()]
	if !ok {
		f, ok = byKind[err.Kind()]
	}
	if !ok {
		f = failure{status: http.StatusInternalServerError, code: codeStore}
	}
	switch err.Reason() {
	case "ALREADY_DELETED":
		f = failure{status: http.StatusNotFound, code: codeSubjectDeleted}
		if ofVersion {
			f.code = codeVersionDeleted
		}
	case "NOT_DELETED":
		f = failure{status: http.StatusNotFound, code: codeSubjectNotDeleted}
		if ofVersion {
			f.code = codeVersionNotDeleted
		}
	}
	f.message = err.Message()
	return f
}
