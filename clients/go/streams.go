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

// ExportMessages yields all messages of a user, oldest first, in batches that ImportMessages accepts. Each batch has a
// cursor to resume the export; the cursor of the last batch is empty. Leaving the loop cancels the export. The timeout is
// that of [WithBulkTimeout], unless the context has a deadline.
func (c *Client) ExportMessages(
	ctx context.Context, request *nomemoryv1.ExportMessagesRequest,
) iter.Seq2[*nomemoryv1.ExportMessagesResponse, error] {
	return responses(ctx, c.opts.bulkTimeout, func(
		ctx context.Context,
	) (grpc.ServerStreamingClient[nomemoryv1.ExportMessagesResponse], error) {
		return c.QueryServiceClient.ExportMessages(ctx, request)
	})
}

// StreamRecall runs a recall and yields each step as it completes, then the result. Leaving the loop cancels the recall.
func (c *Client) StreamRecall(
	ctx context.Context, request *nomemoryv1.StreamRecallRequest,
) iter.Seq2[*nomemoryv1.StreamRecallResponse, error] {
	return responses(ctx, c.opts.timeout, func(
		ctx context.Context,
	) (grpc.ServerStreamingClient[nomemoryv1.StreamRecallResponse], error) {
		return c.RecallServiceClient.StreamRecall(ctx, request)
	})
}

// responses opens a stream with a timeout and yields its responses. It stops after an error.
func responses[Reply any](
	ctx context.Context, timeout time.Duration,
	open func(context.Context) (grpc.ServerStreamingClient[Reply], error),
) iter.Seq2[*Reply, error] {
	return func(yield func(*Reply, error) bool) {
		ctx, cancel := withDeadline(ctx, timeout)
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
