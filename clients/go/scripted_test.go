package nomemory

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// scripted is a server with the responses of a test. It records the requests.
type scripted struct {
	nomemoryv1.UnimplementedQueryServiceServer
	nomemoryv1.UnimplementedIngestServiceServer
	nomemoryv1.UnimplementedRecallServiceServer

	list   func(context.Context, *nomemoryv1.ListMessagesRequest) (*nomemoryv1.ListMessagesResponse, error)
	stream func(grpc.ServerStreamingServer[nomemoryv1.StreamRecallResponse]) error
	write  func(*nomemoryv1.WriteMessagesRequest) error

	guard    sync.Mutex
	asked    []metadata.MD
	writes   []*nomemoryv1.WriteMessagesRequest
	imported []*nomemoryv1.ImportMessagesRequest
}

func (s *scripted) heard(ctx context.Context) {
	s.guard.Lock()
	defer s.guard.Unlock()
	received, _ := metadata.FromIncomingContext(ctx)
	s.asked = append(s.asked, received)
}

func (s *scripted) ListMessages(
	ctx context.Context, request *nomemoryv1.ListMessagesRequest,
) (*nomemoryv1.ListMessagesResponse, error) {
	s.heard(ctx)
	return s.list(ctx, request)
}

func (s *scripted) WriteMessages(
	ctx context.Context, request *nomemoryv1.WriteMessagesRequest,
) (*nomemoryv1.WriteMessagesResponse, error) {
	s.heard(ctx)
	s.writes = append(s.writes, request)
	if s.write != nil {
		if err := s.write(request); err != nil {
			return nil, err
		}
	}
	return &nomemoryv1.WriteMessagesResponse{WriteToken: "w"}, nil
}

func (s *scripted) ImportMessages(
	stream grpc.ClientStreamingServer[nomemoryv1.ImportMessagesRequest, nomemoryv1.ImportMessagesResponse],
) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return stream.SendAndClose(&nomemoryv1.ImportMessagesResponse{Created: int64(len(s.imported))})
		}
		s.imported = append(s.imported, request)
	}
}

func (s *scripted) Recall(ctx context.Context, _ *nomemoryv1.RecallRequest) (*nomemoryv1.RecallResponse, error) {
	s.heard(ctx)
	return &nomemoryv1.RecallResponse{}, nil
}

func (s *scripted) StreamRecall(
	_ *nomemoryv1.StreamRecallRequest, stream grpc.ServerStreamingServer[nomemoryv1.StreamRecallResponse],
) error {
	s.heard(stream.Context())
	return s.stream(stream)
}

// clientOf runs a scripted server during a test and returns a client of it.
func clientOf(t *testing.T, script *scripted, chosen ...Option) *Client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nomemoryv1.RegisterQueryServiceServer(server, script)
	nomemoryv1.RegisterIngestServiceServer(server, script)
	nomemoryv1.RegisterRecallServiceServer(server, script)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	client, err := Dial("passthrough:///scripted", append(chosen, WithDialOptions(grpc.WithContextDialer(dial)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
