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
	// As much as a server takes: gRPC's own 256 KB would let a large write be sent only once.
	retryBufferBytes = 16 << 20
	maxAttempts      = 5 // what gRPC itself caps a retry policy at
)

// Option sets something of a client that is not as by default.
type Option func(*options)

type options struct {
	token       TokenSource
	tls         *tls.Config
	timeout     time.Duration
	bulkTimeout time.Duration
	attempts    int
	dial        []grpc.DialOption
}

// TokenSource returns what stands behind "Bearer " in the authorization of a call. It is asked at each call, and may be
// asked by several goroutines at once.
type TokenSource func(ctx context.Context) (string, error)

// WithToken sends an API key of a service, or a token of a user, with each call. Use TLS on any network that others
// share: without it the token travels in the clear.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the token of each call, for tokens that expire.
func WithTokenSource(source TokenSource) Option {
	return func(o *options) { o.token = source }
}

// WithTLS talks TLS. The zero [tls.Config] trusts the authorities of the system; RootCAs trusts others instead, and
// Certificates has the caller's own certificate where the server wants one. Without this option, calls are in the clear.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.tls = config }
}

// WithTimeout bounds each call whose context has no deadline, retries included. Default: 30 seconds.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.timeout = timeout }
}

// WithBulkTimeout is the same for imports and exports. Default: an hour.
func WithBulkTimeout(timeout time.Duration) Option {
	return func(o *options) { o.bulkTimeout = timeout }
}

// WithAttempts says how often a call that meets UNAVAILABLE is sent in all, 1 to 5. Default: 4.
func WithAttempts(attempts int) Option {
	return func(o *options) { o.attempts = attempts }
}

// WithDialOptions adds options of gRPC's own, such as interceptors for tracing.
func WithDialOptions(more ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, more...) }
}

func defaults() options {
	return options{timeout: defaultTimeout, bulkTimeout: defaultBulkTimeout, attempts: defaultAttempts}
}

func (o *options) check() error {
	if o.attempts < 1 || o.attempts > maxAttempts {
		return fmt.Errorf("nomemory: attempts must be 1 to %d: %d", maxAttempts, o.attempts)
	}
	if o.timeout <= 0 || o.bulkTimeout <= 0 {
		return fmt.Errorf("nomemory: a timeout must be more than 0")
	}
	return nil
}

// bearer gives each call its credential.
type bearer struct{ token TokenSource }

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// serviceConfig lets gRPC send calls again. Every call of the contract may be: reads and recalls change nothing,
// deletions and writes of messages with ids are idempotent, and other writes have a request id.
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
