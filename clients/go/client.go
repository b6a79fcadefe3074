// Package nomemory is the Go client of NoMemory, a verifiable memory for chat assistants.
//
// A [Client] has a method for each RPC, and iterators for pages and streams. Package nomemoryv1 contains the generated
// types. All methods return errors of the type [*Error].
package nomemory

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

// Client calls one server. It is safe for concurrent use. The embedded generated clients provide the unary methods;
// streaming methods return iterators instead.
//
// A call without a deadline gets the timeout of [WithTimeout]. A call that fails with UNAVAILABLE is retried; a stream is
// retried only before its first response.
type Client struct {
	nomemoryv1.QueryServiceClient
	nomemoryv1.IngestServiceClient
	nomemoryv1.RecallServiceClient
	nomemoryv1.ServerServiceClient

	connection *grpc.ClientConn
	opts       options
}

// Dial returns a client of the server at target (HOST:PORT). It connects at the first call.
func Dial(target string, settings ...Option) (*Client, error) {
	opts := defaults()
	for _, set := range settings {
		set(&opts)
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(target, opts.dialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("nomemory: %w", err)
	}
	return newClient(connection, opts), nil
}

func newClient(connection *grpc.ClientConn, opts options) *Client {
	return &Client{
		QueryServiceClient:  nomemoryv1.NewQueryServiceClient(connection),
		IngestServiceClient: nomemoryv1.NewIngestServiceClient(connection),
		RecallServiceClient: nomemoryv1.NewRecallServiceClient(connection),
		ServerServiceClient: nomemoryv1.NewServerServiceClient(connection),
		connection:          connection,
		opts:                opts,
	}
}

// Close closes the connection. Calls in flight fail.
func (c *Client) Close() error {
	return c.connection.Close()
}

func (o *options) dialOptions() []grpc.DialOption {
	transport := insecure.NewCredentials()
	if o.tls != nil {
		transport = credentials.NewTLS(o.tls)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
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
