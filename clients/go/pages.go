package nomemory

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// LexicalHit is a matching message with its score. Highlight is nil unless the request asks for highlights.
type LexicalHit struct {
	Message   *nomemoryv1.ChatMessage
	Score     float32
	Highlight *nomemoryv1.Highlight
}

// Messages yields all messages in time order, page by page. It stops after an error.
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

// LexicalHits yields all results of a lexical search, page by page. It stops after an error.
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

// Conversations yields all conversations of a user, page by page. It stops after an error.
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

// Users yields all users with messages, page by page. It stops after an error.
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

// Hits combines the items, scores and highlights of a page.
func Hits(page *nomemoryv1.LexicalSearchResponse) []LexicalHit {
	hits := make([]LexicalHit, len(page.GetItems()))
	for i, message := range page.GetItems() {
		hits[i] = LexicalHit{Message: message, Score: page.GetScores()[i].GetScore()}
		if len(page.GetHighlights()) > 0 {
			hits[i].Highlight = page.GetHighlights()[i]
		}
	}
	return hits
}

// all yields the items of all pages, starting at a cursor. fetch returns the items of a page and the next cursor.
func all[Item any](cursor string, fetch func(cursor string) ([]Item, string, error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for next := cursor; ; {
			items, nextCursor, err := fetch(next)
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
			if nextCursor == "" {
				return
			}
			next = nextCursor
		}
	}
}
