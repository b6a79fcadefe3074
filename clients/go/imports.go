package nomemory

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

const (
	batchMessages = 1_000
	batchBytes    = 4_000_000 // well below the server's limit on the request size
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// Replace allows a message to replace the stored message with the same id.
	Replace bool
}

// ImportMessages stores any number of messages in batches. Rejected messages are skipped and reported in the response. The
// timeout is that of [WithBulkTimeout], unless the context has a deadline.
func (c *Client) ImportMessages(
	ctx context.Context, messages iter.Seq[*nomemoryv1.ChatMessage], settings ImportOptions,
) (*nomemoryv1.ImportMessagesResponse, error) {
	ctx, cancel := withDeadline(ctx, c.opts.bulkTimeout)
	defer cancel()
	upload, err := c.IngestServiceClient.ImportMessages(ctx)
	if err != nil {
		return nil, err
	}
	for batch := range batches(messages) {
		request := &nomemoryv1.ImportMessagesRequest{Messages: batch, Replace: settings.Replace}
		if !haveIDs(batch) {
			request.RequestId = rand.Text()
		}
		if err := upload.Send(request); errors.Is(err, io.EOF) {
			break // the server ended the stream; CloseAndRecv returns the error
		} else if err != nil {
			return nil, asError(err, nil)
		}
	}
	return summary(upload)
}

func summary(
	upload grpc.ClientStreamingClient[nomemoryv1.ImportMessagesRequest, nomemoryv1.ImportMessagesResponse],
) (*nomemoryv1.ImportMessagesResponse, error) {
	reply, err := upload.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// batches splits messages into batches within the server's limits.
func batches(messages iter.Seq[*nomemoryv1.ChatMessage]) iter.Seq[[]*nomemoryv1.ChatMessage] {
	return func(yield func([]*nomemoryv1.ChatMessage) bool) {
		var batch []*nomemoryv1.ChatMessage
		size := 0
		for message := range messages {
			length := proto.Size(message)
			if len(batch) > 0 && (len(batch) == batchMessages || size+length > batchBytes) {
				if !yield(batch) {
					return
				}
				batch, size = nil, 0
			}
			batch, size = append(batch, message), size+length
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}
