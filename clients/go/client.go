// Package nomemory is the Go client of NoMemory, a memory for chat assistants that can be checked: it keeps only what
// was said, and every line of an answer quotes its evidence.
//
// A [Client] has a method for each RPC of the contract, which package nomemoryv1 holds, and iterators that follow
// cursors and streams. What fails is an [*Error].
package nomemory

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// Client calls one server. Goroutines may share it. Its embedded clients give it a method for each RPC; those of the
// streams are hidden by methods that Go can range over.
//
// A call whose context has no deadline gets the one of [WithTimeout]. A call that meets UNAVAILABLE is sent again; a
// stream only until something of it has arrived.
type Client struct {
	nomemoryv1.QueryServiceClient
	nomemoryv1.IngestServiceClient
	nomemoryv1.RecallServiceClient
	nomemoryv1.ServerServiceClient

	connection *grpc.ClientConn
	chosen     options
}

// Dial makes a client of the server at target, which is HOST:PORT. It connects at the first call.
func Dial(target string, chosen ...Option) (*Client, error) {
	all := defaults()
	for _, choose := range chosen {
		choose(&all)
	}
	if err := all.check(); err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(target, all.dialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("nomemory: %w", err)
	}
	return newClient(connection, all), nil
}

func newClient(connection *grpc.ClientConn, chosen options) *Client {
	return &Client{
		QueryServiceClient:  nomemoryv1.NewQueryServiceClient(connection),
		IngestServiceClient: nomemoryv1.NewIngestServiceClient(connection),
		RecallServiceClient: nomemoryv1.NewRecallServiceClient(connection),
		ServerServiceClient: nomemoryv1.NewServerServiceClient(connection),
		connection:          connection,
		chosen:              chosen,
	}
}

// Close closes the connection. Calls in flight fail.
func (c *Client) Close() error {
	return c.connection.Close()
}

func (o *options) dialOptions() []grpc.DialOption {
	secured := insecure.NewCredentials()
	if o.tls != nil {
		secured = credentials.NewTLS(o.tls)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithChainUnaryInterceptor(o.unary),
		grpc.WithChainStreamInterceptor(stream),
	}
	if o.attempts > 1 {
		dial = append(dial,
			grpc.WithDefaultServiceConfig(serviceConfig(o.attempts)),
			grpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(retryBufferBytes)),
		)
	}
	if o.token != nil {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{o.token}))
	}
	return append(dial, o.dial...)
}
