package main

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nomemory "github.com/nomemory/nomemory/clients/go"
	pb "github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// called makes the call of a step. request is the request in JSON.
func called(ctx context.Context, client *nomemory.Client, step step, request []byte) replies {
	if step.For != nil {
		return recalled(ctx, client.BoundTo(*step.For), step.Call, request)
	}
	if step.All {
		return listed(ctx, client, step.Call, request)
	}
	switch step.Call {
	case "ImportMessages":
		return one(imported(ctx, client, request))
	case "ExportMessages":
		return each(client.ExportMessages(ctx, parsed(request, &pb.ExportMessagesRequest{})))
	case "Recall", "StreamRecall", "BuildContext":
		return recalled(ctx, client, step.Call, request)
	}
	return readOrWritten(ctx, client, step.Call, request)
}

func readOrWritten(ctx context.Context, client *nomemory.Client, call string, request []byte) replies {
	switch call {
	case "GetServerInfo":
		return unary(ctx, client.GetServerInfo, request, &pb.GetServerInfoRequest{})
	case "GetIndexStatus":
		return unary(ctx, client.GetIndexStatus, request, &pb.GetIndexStatusRequest{})
	case "WriteMessages":
		return unary(ctx, client.WriteMessages, request, &pb.WriteMessagesRequest{})
	case "DeleteMessages":
		return unary(ctx, client.DeleteMessages, request, &pb.DeleteMessagesRequest{})
	case "EraseUser":
		return unary(ctx, client.EraseUser, request, &pb.EraseUserRequest{})
	case "ListMessages":
		return unary(ctx, client.ListMessages, request, &pb.ListMessagesRequest{})
	case "BatchGetMessages":
		return unary(ctx, client.BatchGetMessages, request, &pb.BatchGetMessagesRequest{})
	case "CountMessages":
		return unary(ctx, client.CountMessages, request, &pb.CountMessagesRequest{})
	case "LexicalSearch":
		return unary(ctx, client.LexicalSearch, request, &pb.LexicalSearchRequest{})
	case "SemanticSearch":
		return unary(ctx, client.SemanticSearch, request, &pb.SemanticSearchRequest{})
	case "HybridSearch":
		return unary(ctx, client.HybridSearch, request, &pb.HybridSearchRequest{})
	case "GetNeighbors":
		return unary(ctx, client.GetNeighbors, request, &pb.GetNeighborsRequest{})
	}
	panic("the scenario has a call that this runner does not support: " + call)
}

// recaller is a client, or the recalls of one user.
type recaller interface {
	StreamRecall(context.Context, *pb.StreamRecallRequest) iter.Seq2[*pb.StreamRecallResponse, error]
}

func recalled(ctx context.Context, from recaller, call string, request []byte) replies {
	if call == "StreamRecall" {
		return each(from.StreamRecall(ctx, parsed(request, &pb.StreamRecallRequest{})))
	}
	bound, isBound := from.(nomemory.Bound)
	client, _ := from.(*nomemory.Client)
	if call == "BuildContext" {
		selection := parsed(request, &pb.BuildContextRequest{})
		if isBound {
			return one(bound.BuildContext(ctx, selection))
		}
		return one(client.BuildContext(ctx, selection))
	}
	question := parsed(request, &pb.RecallRequest{})
	if isBound {
		return one(bound.Recall(ctx, question))
	}
	return one(client.Recall(ctx, question))
}

func listed(ctx context.Context, client *nomemory.Client, call string, request []byte) replies {
	switch call {
	case "ListMessages":
		return each(client.Messages(ctx, parsed(request, &pb.ListMessagesRequest{})))
	case "ListConversations":
		return each(client.Conversations(ctx, parsed(request, &pb.ListConversationsRequest{})))
	case "ListUsers":
		return each(client.Users(ctx, parsed(request, &pb.ListUsersRequest{})))
	}
	hits := client.LexicalHits(ctx, parsed(request, &pb.LexicalSearchRequest{}))
	return func(yield func(proto.Message, error) bool) {
		for hit, err := range hits {
			if !yield(hit.Message, err) {
				return
			}
		}
	}
}

func imported(ctx context.Context, client *nomemory.Client, request []byte) (*pb.ImportMessagesResponse, error) {
	batch := parsed(request, &pb.ImportMessagesRequest{})
	return client.ImportMessages(ctx, slices.Values(batch.Messages), nomemory.ImportOptions{})
}

func unary[Request, Reply proto.Message](
	ctx context.Context, method func(context.Context, Request, ...grpc.CallOption) (Reply, error),
	request []byte, into Request,
) replies {
	return one(method(ctx, parsed(request, into)))
}

func parsed[Request proto.Message](request []byte, into Request) Request {
	check(protojson.Unmarshal(request, into))
	return into
}

func one[Reply proto.Message](reply Reply, err error) replies {
	return func(yield func(proto.Message, error) bool) { yield(reply, err) }
}

func each[Reply proto.Message](all iter.Seq2[Reply, error]) replies {
	return func(yield func(proto.Message, error) bool) {
		for reply, err := range all {
			if !yield(reply, err) {
				return
			}
		}
	}
}
