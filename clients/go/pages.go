package nomemory

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// LexicalHit is a message that matched, and its score. Highlight is nil unless highlights were asked for.
type LexicalHit struct {
	Message   *nomemoryv1.ChatMessage
	Score     float32
	Highlight *nomemoryv1.Highlight
}

// Messages reads by time to the end, page by page. It stops after an error.
func (c *Client) Messages(
	ctx context.Context, request *nomemoryv1.ListMessagesRequest,
) iter.Seq2[*nomemoryv1.ChatMessage, error] {
	return all(request.GetCursor(), func(cursor string) ([]*nomemoryv1.ChatMessage, string, error) {
		next := proto.CloneOf(request)
		next.Cursor = cursor
		page, err := c.ListMessages(ctx, next)
		return page.GetItems(), page.GetNextCursor(), err
	})
}

// LexicalHits finds words and phrases to the end, page by page. It stops after an error.
func (c *Client) LexicalHits(
	ctx context.Context, request *nomemoryv1.LexicalSearchRequest,
) iter.Seq2[LexicalHit, error] {
	return all(request.GetCursor(), func(cursor string) ([]LexicalHit, string, error) {
		next := proto.CloneOf(request)
		next.Cursor = cursor
		page, err := c.LexicalSearch(ctx, next)
		return Hits(page), page.GetNextCursor(), err
	})
}

// Conversations reads a user's conversations to the end, page by page. It stops after an error.
func (c *Client) Conversations(
	ctx context.Context, request *nomemoryv1.ListConversationsRequest,
) iter.Seq2[*nomemoryv1.Conversation, error] {
	return all(request.GetCursor(), func(cursor string) ([]*nomemoryv1.Conversation, string, error) {
		next := proto.CloneOf(request)
		next.Cursor = cursor
		page, err := c.ListConversations(ctx, next)
		return page.GetConversations(), page.GetNextCursor(), err
	})
}

// Users reads the users who have messages to the end, page by page. It stops after an error.
func (c *Client) Users(
	ctx context.Context, request *nomemoryv1.ListUsersRequest,
) iter.Seq2[*nomemoryv1.UserSummary, error] {
	return all(request.GetCursor(), func(cursor string) ([]*nomemoryv1.UserSummary, string, error) {
		next := proto.CloneOf(request)
		next.Cursor = cursor
		page, err := c.ListUsers(ctx, next)
		return page.GetUsers(), page.GetNextCursor(), err
	})
}

// Hits returns the hits of a page, best first, from its parallel lists.
func Hits(page *nomemoryv1.LexicalSearchResponse) []LexicalHit {
	hits := make([]LexicalHit, len(page.GetItems()))
	for place, message := range page.GetItems() {
		hits[place] = LexicalHit{Message: message, Score: page.GetScores()[place].GetScore()}
		if len(page.GetHighlights()) > 0 {
			hits[place].Highlight = page.GetHighlights()[place]
		}
	}
	return hits
}

// all follows cursors, from a first one on. fetch returns a page's items and the cursor of the next page.
func all[Item any](cursor string, fetch func(cursor string) ([]Item, string, error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for next := cursor; ; {
			items, following, err := fetch(next)
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if following == "" {
				return
			}
			next = following
		}
	}
}
