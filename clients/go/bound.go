package nomemory

import (
	"context"
	"iter"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// Bound recalls for one user, whom a service names. It needs the scope act-as. A caller with a user's own token needs no
// Bound: the token names the user.
type Bound struct {
	client *Client
	userID string
}

// BoundTo names the user of recalls. The user travels in metadata, never in a request.
func (c *Client) BoundTo(userID string) Bound {
	return Bound{c, userID}
}

// Recall answers a question about the bound user from what was said.
func (b Bound) Recall(
	ctx context.Context, request *nomemoryv1.RecallRequest,
) (*nomemoryv1.RecallResponse, error) {
	return b.client.Recall(b.naming(ctx), request)
}

// StreamRecall is [Client.StreamRecall] for the bound user.
func (b Bound) StreamRecall(
	ctx context.Context, request *nomemoryv1.StreamRecallRequest,
) iter.Seq2[*nomemoryv1.StreamRecallResponse, error] {
	return b.client.StreamRecall(b.naming(ctx), request)
}

// BuildContext selects the messages of the bound user that an assistant should have in its prompt.
func (b Bound) BuildContext(
	ctx context.Context, request *nomemoryv1.BuildContextRequest,
) (*nomemoryv1.BuildContextResponse, error) {
	return b.client.BuildContext(b.naming(ctx), request)
}

// naming adds the user to the metadata. Text metadata is ASCII and is trimmed on its way; any other id travels as bytes.
func (b Bound) naming(ctx context.Context) context.Context {
	key := "x-user-id"
	if !isText(b.userID) {
		key = "x-user-id-bin"
	}
	return metadata.AppendToOutgoingContext(ctx, key, b.userID)
}

func isText(id string) bool {
	for place := range len(id) {
		if id[place] < ' ' || id[place] > '~' {
			return false
		}
	}
	return id == strings.TrimSpace(id)
}
