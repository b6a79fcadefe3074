// Writes a message, searches for it, and runs recalls: go run ./example
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	nomemory "github.com/nomemory/nomemory/clients/go"
	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

func main() {
	ctx := context.Background()
	memory, err := nomemory.Dial("127.0.0.1:7700")
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Close()

	written, err := memory.WriteMessages(ctx, &nomemoryv1.WriteMessagesRequest{
		Messages: []*nomemoryv1.ChatMessage{{
			UserId: "ann", Role: nomemoryv1.Role_ROLE_USER, Content: "I never eat spicy food.",
		}},
	})
	var failed *nomemory.Error
	if errors.As(err, &failed) {
		log.Fatal(failed.Reason, failed.Violations)
	} else if err != nil {
		log.Fatal(err)
	}

	search := &nomemoryv1.LexicalSearchRequest{
		UserId: "ann", QueryText: `"spicy food"`, AtLeast: written.WriteToken,
	}
	for hit, err := range memory.LexicalHits(ctx, search) { // reads page by page
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("found:", hit.Message.Content)
	}

	question := &nomemoryv1.RecallRequest{Question: "Do I eat spicy food?", AtLeast: written.WriteToken}
	answer, err := memory.BoundTo("ann").Recall(ctx, question)
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range answer.MemoryView.Preferences {
		fmt.Println("recalled:", statement.Citations[0].Quote)
	}

	streamed := &nomemoryv1.StreamRecallRequest{Question: question.Question, AtLeast: written.WriteToken}
	for event, err := range memory.BoundTo("ann").StreamRecall(ctx, streamed) {
		if err != nil {
			log.Fatal(err)
		}
		if step := event.GetStep(); step != nil {
			fmt.Println("step:", step.Tool, step.Thought)
		} else {
			fmt.Println("verdict:", event.GetResult().Verdict)
		}
	}
}
