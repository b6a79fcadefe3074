package nomemory

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
)

const (
	defaultTimeout     = 30 * time.Second
	defaultBulkTimeout = time.Hour
	defaultAttempts    = 4
	// The server's limit on the request size. With gRPC's default of 256 KB, a large write would not be retried.
	retryBufferBytes = 16 << 20
	maxAttempts      = 5 // the limit of gRPC
)

// Option is an option of [Dial].
type Option func(*options)

type options struct {
	token       TokenSource
	tls         *tls.Config
	timeout     time.Duration
	bulkTimeout time.Duration
	attempts    int
	dial        []grpc.DialOption
}

// TokenSource returns the bearer token of a call. It is called for each call, possibly concurrently.
type TokenSource func(ctx context.Context) (string, error)

// WithToken sends an API key or a user token with each call. Without TLS, the token is sent as plaintext.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource gets the token of each call from a function, for tokens that expire.
func WithTokenSource(source TokenSource) Option {
	return func(o *options) { o.token = source }
}

// WithTLS enables TLS. The zero [tls.Config] trusts the certificate authorities of the system. RootCAs sets other
// authorities, and Certificates the client certificate for mutual TLS. Without this option, calls are sent as plaintext.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config }
}

// WithTimeout sets the timeout of calls whose context has no deadline, including retries. Default: 30 seconds.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.timeout = timeout }
}

// WithBulkTimeout sets the timeout of imports and exports. Default: 1 hour.
func WithBulkTimeout(timeout time.Duration) Option {
	return func(o *options) { o.bulkTimeout = timeout }
}

// WithAttempts sets the maximum number of attempts of a call that fails with UNAVAILABLE, 1 to 5. Default: 4.
func WithAttempts(attempts int) Option {
	return func(o *options) { o.attempts = attempts }
}

// WithDialOptions adds gRPC dial options, for example interceptors for tracing.
func WithDialOptions(extra ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, extra...) }
}

func defaults() options {
	return options{timeout: defaultTimeout, bulkTimeout: defaultBulkTimeout, attempts: defaultAttempts}
}

func (o *options) check() error {
	if o.attempts < 1 || o.attempts > maxAttempts {
		return fmt.Errorf("nomemory: attempts must be 1 to %d, got %d", maxAttempts, o.attempts)
	}
	if o.timeout <= 0 || o.bulkTimeout <= 0 {
		return fmt.Errorf("nomemory: timeouts must be positive, got %s and %s", o.timeout, o.bulkTimeout)
	}
	return nil
}

// bearer adds the bearer token to each call.
type bearer struct{ token TokenSource }

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// serviceConfig returns a gRPC service config with retries. All RPCs can be retried: reads and recalls have no side
// effects, deletions and writes of messages with ids are idempotent, and other writes have a request id.
func serviceConfig(attempts int) string {
	return fmt.Sprintf(`{"methodConfig": [{
		"name": [
			{"service": "nomemory.v1.QueryService"}, {"service": "nomemory.v1.IngestService"},
			{"service": "nomemory.v1.RecallService"}, {"service": "nomemory.v1.ServerService"}
		],
		"retryPolicy": {
			"maxAttempts": %d, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 3,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]}`, attempts)
}
