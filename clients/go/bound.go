package nomemory

import (
	"context"
	"iter"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// Bound runs recalls for one user. It requires an API key with the scope act-as. With a user token, call the methods of
// [Client] instead: the token names the user.
type Bound struct {
	client *Client
	userID string
}

// BoundTo returns a [Bound] for a user. The client sends the user id as call metadata, not in the request.
func (c *Client) BoundTo(userID string) Bound {
	return Bound{c, userID}
}

// Recall answers a question from the messages of the bound user.
func (b Bound) Recall(
	ctx context.Context, request *nomemoryv1.RecallRequest,
) (*nomemoryv1.RecallResponse, error) {
	return b.client.Recall(b.withUser(ctx), request)
}

// StreamRecall is [Client.StreamRecall] for the bound user.
func (b Bound) StreamRecall(
	ctx context.Context, request *nomemoryv1.StreamRecallRequest,
) iter.Seq2[*nomemoryv1.StreamRecallResponse, error] {
	return b.client.StreamRecall(b.withUser(ctx), request)
}

// BuildContext selects the messages of the bound user for the prompt of an assistant.
func (b Bound) BuildContext(
	ctx context.Context, request *nomemoryv1.BuildContextRequest,
) (*nomemoryv1.BuildContextResponse, error) {
	return b.client.BuildContext(b.withUser(ctx), request)
}

// withUser adds the user id to the metadata. gRPC text metadata must be ASCII and is trimmed, so other ids are sent as
// binary metadata.
func (b Bound) withUser(ctx context.Context) context.Context {
	key := "x-user-id"
	if !isText(b.userID) {
		key = "x-user-id-bin"
	}
	return metadata.AppendToOutgoingContext(ctx, key, b.userID)
}

func isText(id string) bool {
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return id == strings.TrimSpace(id)
}
