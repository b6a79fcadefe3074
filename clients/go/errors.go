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

// Error is the error of a failed call. Use [errors.As] to get it. It matches [context.Canceled] and
// [context.DeadlineExceeded] with [errors.Is], and package google.golang.org/grpc/status can read its status.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Message describes the error: the message of the server, or of gRPC if the server did not respond.
	Message string
	// Reason is the cause. ERROR_REASON_UNSPECIFIED: not sent by a NoMemory server, or unknown to this client.
	Reason nomemoryv1.ErrorReason
	// Violations are the invalid fields of the request.
	Violations []Violation
	// Metadata has additional details from the server.
	Metadata map[string]string
	// RequestID identifies the call in the server's log. Empty if the server did not respond.
	RequestID string
	// RetryAfter is the delay that the server requests before a retry. 0 if there is none.
	RetryAfter time.Duration

	status *status.Status
}

// Violation is an invalid field of a request. Field is its path.
type Violation struct {
	Field       string
	Description string
}

// Error returns the code and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("nomemory: %s: %s", e.Code, e.Message)
}

// GRPCStatus returns the gRPC status.
func (e *Error) GRPCStatus() *status.Status {
	return e.status
}

// Is reports whether the call ended because its context was canceled or its deadline passed.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// asError converts an error of gRPC to [*Error].
func asError(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	received, _ := status.FromError(err)
	failed := &Error{Code: received.Code(), Message: received.Message(), status: received}
	for _, detail := range received.Details() {
		failed.addDetail(detail)
	}
	if ids := trailer.Get(requestIDKey); len(ids) > 0 {
		failed.RequestID = ids[0]
	}
	return failed
}

func (e *Error) addDetail(detail any) {
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
