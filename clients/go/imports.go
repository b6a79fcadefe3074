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
	batchBytes    = 4_000_000 // well below what a server takes in one request
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// Replace allows a message to take the place of the one with its id.
	Replace bool
}

// ImportMessages stores any number of messages in batches, which it makes itself. Those that are refused are reported and
// skipped. The deadline is that of [WithBulkTimeout], unless the context has one.
func (c *Client) ImportMessages(
	ctx context.Context, messages iter.Seq[*nomemoryv1.ChatMessage], chosen ImportOptions,
) (*nomemoryv1.ImportMessagesResponse, error) {
	ctx, cancel := bounded(ctx, c.chosen.bulkTimeout)
	defer cancel()
	sending, err := c.IngestServiceClient.ImportMessages(ctx)
	if err != nil {
		return nil, err
	}
	for batch := range batches(messages) {
		request := &nomemoryv1.ImportMessagesRequest{Messages: batch, Replace: chosen.Replace}
		if !haveIDs(batch) {
			request.RequestId = rand.Text()
		}
		if err := sending.Send(request); errors.Is(err, io.EOF) {
			break // the server ended the stream, and receiving tells why
		} else if err != nil {
			return nil, asError(err, nil)
		}
	}
	return summary(sending)
}

func summary(
	sending grpc.ClientStreamingClient[nomemoryv1.ImportMessagesRequest, nomemoryv1.ImportMessagesResponse],
) (*nomemoryv1.ImportMessagesResponse, error) {
	reply, err := sending.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// batches cuts messages into requests within the server's limits.
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
