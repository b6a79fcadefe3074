package nomemory

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

const requestIDKey = "x-request-id"

// Error is a call that did not succeed. Find it with [errors.As]. It also is [context.Canceled] or
// [context.DeadlineExceeded] for [errors.Is], and a status for the package google.golang.org/grpc/status.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Message is the server's sentence for people, or gRPC's where no server answered.
	Message string
	// Reason is the cause. ERROR_REASON_UNSPECIFIED: the error did not come from a NoMemory server, or from a newer one.
	Reason nomemoryv1.ErrorReason
	// Violations are the bad fields of the request.
	Violations []Violation
	// Metadata has further facts, as the server sent them.
	Metadata map[string]string
	// RequestID is what the server's log knows the call by; empty where no server answered.
	RequestID string
	// RetryAfter is when to try again, where the server suggests it; else 0.
	RetryAfter time.Duration

	status *status.Status
}

// Violation is one bad field of a request, by its path.
type Violation struct {
	Field       string
	Description string
}

// Error returns the code and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("nomemory: %s: %s", e.Code, e.Message)
}

// GRPCStatus returns the status as it was received.
func (e *Error) GRPCStatus() *status.Status {
	return e.status
}

// Is reports whether a call ended because its context did.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// asError converts what gRPC returned for a call.
func asError(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	received, _ := status.FromError(err)
	failed := &Error{Code: received.Code(), Message: received.Message(), status: received}
	for _, detail := range received.Details() {
		failed.take(detail)
	}
	if ids := trailer.Get(requestIDKey); len(ids) > 0 {
		failed.RequestID = ids[0]
	}
	return failed
}

func (e *Error) take(detail any) {
	switch detail := detail.(type) {
	case *errdetails.ErrorInfo:
		e.Reason = nomemoryv1.ErrorReason(nomemoryv1.ErrorReason_value[detail.GetReason()])
		e.Metadata = detail.GetMetadata()
		e.RequestID = detail.GetMetadata()["request_id"]
	case *errdetails.BadRequest:
		for _, violation := range detail.GetFieldViolations() {
			e.Violations = append(e.Violations, Violation{violation.GetField(), violation.GetDescription()})
		}
	case *errdetails.RetryInfo:
		e.RetryAfter = detail.GetRetryDelay().AsDuration()
	}
}
