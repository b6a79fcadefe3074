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

// unary is what each call with one request and one reply passes: a deadline, a request id for writes, our errors.
func (o *options) unary(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	chosen ...grpc.CallOption,
) error {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	var trailer metadata.MD
	err := invoke(ctx, method, repeatable(request), reply, connection, append(chosen, grpc.Trailer(&trailer))...)
	return asError(err, trailer)
}

// bounded gives a context a deadline if it has none.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// repeatable gives a write a request id if it has messages without ids, so that a retry does not store them twice. The
// caller's request stays as it is.
func repeatable(request any) any {
	write, is := request.(*nomemoryv1.WriteMessagesRequest)
	if !is || write.GetRequestId() != "" || haveIDs(write.GetMessages()) {
		return request
	}
	with := proto.CloneOf(write)
	with.RequestId = rand.Text()
	return with
}

func haveIDs(messages []*nomemoryv1.ChatMessage) bool {
	for _, message := range messages {
		if message.GetMessageId() == "" {
			return false
		}
	}
	return true
}

// stream is what each streaming call passes.
func stream(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string, open grpc.Streamer,
	chosen ...grpc.CallOption,
) (grpc.ClientStream, error) {
	opened, err := open(ctx, description, connection, method, chosen...)
	if err != nil {
		return nil, asError(err, nil)
	}
	return failing{opened}, nil
}

// failing is a stream that fails with our errors.
type failing struct{ grpc.ClientStream }

func (f failing) RecvMsg(reply any) error {
	err := f.ClientStream.RecvMsg(reply)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return asError(err, f.Trailer())
}
