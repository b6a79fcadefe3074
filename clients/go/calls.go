package nomemory

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// unary is the interceptor of unary calls. It sets a deadline and a request id for writes, and converts errors.
func (o *options) unary(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	callOptions ...grpc.CallOption,
) error {
	ctx, cancel := withDeadline(ctx, o.timeout)
	defer cancel()
	var trailer metadata.MD
	err := invoke(ctx, method, withRequestID(request), reply, connection, append(callOptions, grpc.Trailer(&trailer))...)
	return asError(err, trailer)
}

// withDeadline adds a deadline to a context that has none.
func withDeadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// withRequestID returns a copy of a write with a request id if a message has no id, so that a retry does not store the
// message twice.
func withRequestID(request any) any {
	write, ok := request.(*nomemoryv1.WriteMessagesRequest)
	if !ok || write.GetRequestId() != "" || haveIDs(write.GetMessages()) {
		return request
	}
	clone := proto.CloneOf(write)
	clone.RequestId = rand.Text()
	return clone
}

func haveIDs(messages []*nomemoryv1.ChatMessage) bool {
	for _, message := range messages {
		if message.GetMessageId() == "" {
			return false
		}
	}
	return true
}

// stream is the interceptor of streaming calls. It converts errors.
func stream(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string, open grpc.Streamer,
	callOptions ...grpc.CallOption,
) (grpc.ClientStream, error) {
	opened, err := open(ctx, description, connection, method, callOptions...)
	if err != nil {
		return nil, asError(err, nil)
	}
	return errorConvertingStream{opened}, nil
}

// errorConvertingStream is a stream whose receive errors are of the type [*Error].
type errorConvertingStream struct{ grpc.ClientStream }

func (s errorConvertingStream) RecvMsg(reply any) error {
	err := s.ClientStream.RecvMsg(reply)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return asError(err, s.Trailer())
}
