package nomemory

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// ExportMessages reads all messages of a user, oldest first, in batches that an import takes. Each batch has a cursor to
// resume with; that of the last one is empty. Leaving the loop stops the export. The deadline is that of
// [WithBulkTimeout], unless the context has one.
func (c *Client) ExportMessages(
	ctx context.Context, request *nomemoryv1.ExportMessagesRequest,
) iter.Seq2[*nomemoryv1.ExportMessagesResponse, error] {
	return received(ctx, c.chosen.bulkTimeout, func(
		ctx context.Context,
	) (grpc.ServerStreamingClient[nomemoryv1.ExportMessagesResponse], error) {
		return c.QueryServiceClient.ExportMessages(ctx, request)
	})
}

// StreamRecall recalls, and yields each step as it happens, then the result. Leaving the loop cancels the recall.
func (c *Client) StreamRecall(
	ctx context.Context, request *nomemoryv1.StreamRecallRequest,
) iter.Seq2[*nomemoryv1.StreamRecallResponse, error] {
	return received(ctx, c.chosen.timeout, func(
		ctx context.Context,
	) (grpc.ServerStreamingClient[nomemoryv1.StreamRecallResponse], error) {
		return c.RecallServiceClient.StreamRecall(ctx, request)
	})
}

// received opens a stream within a deadline and yields its replies. It stops after an error.
func received[Reply any](
	ctx context.Context, timeout time.Duration,
	open func(context.Context) (grpc.ServerStreamingClient[Reply], error),
) iter.Seq2[*Reply, error] {
	return func(yield func(*Reply, error) bool) {
		ctx, cancel := bounded(ctx, timeout)
		defer cancel()
		replies, err := open(ctx)
		for err == nil {
			var reply *Reply
			reply, err = replies.Recv()
			if err == nil && !yield(reply, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}
