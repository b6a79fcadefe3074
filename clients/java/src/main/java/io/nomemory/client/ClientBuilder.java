package io.nomemory.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;

/** Configures a client. Returned by {@link NoMemoryClient#builder(String)}. */
public final class ClientBuilder {
  private final Function<ChannelCredentials, ManagedChannelBuilder<?>> transport;
  private Supplier<String> token;
  private TlsChannelCredentials.Builder tls; // null: plaintext
  private Duration timeout = Duration.ofSeconds(30);
  private Duration bulkTimeout = Duration.ofHours(1);
  private int attempts = 4;

  /** Take a function that creates a channel builder from credentials. The credentials are null without TLS. */
  ClientBuilder(Function<ChannelCredentials, ManagedChannelBuilder<?>> transport) {
    this.transport = transport;
  }

  static ClientBuilder to(String target) {
    Objects.requireNonNull(target, "target");
    ChannelCredentials plaintext = InsecureChannelCredentials.create();
    return new ClientBuilder(
        credentials -> Grpc.newChannelBuilder(target, Objects.requireNonNullElse(credentials, plaintext)));
  }

  static ClientBuilder over(ManagedChannelBuilder<?> channel) {
    return new ClientBuilder(credentials -> {
      if (credentials != null) {
        throw new IllegalStateException("configure TLS in the channel builder, not in the client builder");
      }
      return channel;
    });
  }

  /**
   * Send an API key or a user token with each call. Without TLS, the token is sent as plaintext.
   *
   * @param token the API key or token; empty: no credential
   * @return this
   */
  public ClientBuilder token(String token) {
    return token(() -> token);
  }

  /**
   * Get the token of each call from a supplier, for tokens that expire.
   *
   * @param source returns the token; must be thread-safe. If it throws, the call fails with UNAUTHENTICATED and that
   *     exception as its cause
   * @return this
   */
  public ClientBuilder token(Supplier<String> source) {
    this.token = source;
    return this;
  }

  /**
   * Enable TLS, and trust the certificate authorities that Java trusts.
   *
   * @return this
   */
  public ClientBuilder tls() {
    tls = tls == null ? TlsChannelCredentials.newBuilder() : tls;
    return this;
  }

  /**
   * Enable TLS, and trust the certificate authorities in a file instead of those that Java trusts.
   *
   * @param file the certificates of the authorities (PEM)
   * @return this
   * @throws UncheckedIOException if the file cannot be read
   */
  public ClientBuilder tlsAuthorities(Path file) {
    tls();
    return reading(() -> tls.trustManager(file.toFile()));
  }

  /**
   * Enable mutual TLS with a client certificate.
   *
   * @param chain the certificate chain (PEM)
   * @param key the private key (PEM, PKCS #8)
   * @return this
   * @throws UncheckedIOException if a file cannot be read
   */
  public ClientBuilder tlsIdentity(Path chain, Path key) {
    tls();
    return reading(() -> tls.keyManager(chain.toFile(), key.toFile()));
  }

  /**
   * Set the timeout of calls, including retries.
   *
   * @param timeout positive. Default: 30 seconds
   * @return this
   */
  public ClientBuilder timeout(Duration timeout) {
    this.timeout = Calls.positive(timeout);
    return this;
  }

  /**
   * Set the timeout of imports and exports.
   *
   * @param timeout positive. Default: 1 hour
   * @return this
   */
  public ClientBuilder bulkTimeout(Duration timeout) {
    this.bulkTimeout = Calls.positive(timeout);
    return this;
  }

  /**
   * Set the maximum number of attempts of a call that fails with UNAVAILABLE.
   *
   * @param attempts 1 to 5. Default: 4
   * @return this
   */
  public ClientBuilder attempts(int attempts) {
    if (attempts < 1 || attempts > RetryPolicy.MAX_ATTEMPTS) {
      throw new IllegalArgumentException("attempts must be 1 to " + RetryPolicy.MAX_ATTEMPTS + ", got " + attempts);
    }
    this.attempts = attempts;
    return this;
  }

  /**
   * Create the client. It connects at the first call.
   *
   * @return a client that the caller closes
   * @throws IllegalArgumentException if the target is invalid
   */
  public NoMemoryClient build() {
    ManagedChannelBuilder<?> builder = transport.apply(tls == null ? null : tls.build());
    RetryPolicy.apply(builder, attempts);
    ManagedChannel connection = builder.build();
    Channel channel = token == null ? connection : ClientInterceptors.intercept(connection, authorizing(new Bearer(token)));
    return new NoMemoryClient(connection, new Calls(channel, timeout), new Calls(channel, bulkTimeout));
  }

  private static ClientInterceptor authorizing(Bearer bearer) {
    return new ClientInterceptor() {
      @Override
      public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        return next.newCall(method, options.withCallCredentials(bearer));
      }
    };
  }

  private ClientBuilder reading(Files files) {
    try {
      files.read();
    } catch (IOException unreadable) {
      throw new UncheckedIOException(unreadable);
    }
    return this;
  }

  private interface Files {
    void read() throws IOException;
  }
}
