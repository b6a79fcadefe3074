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

/** Sets what of a client is not as by default. {@link NoMemoryClient#builder(String)} makes it. */
public final class ClientBuilder {
  private final Function<ChannelCredentials, ManagedChannelBuilder<?>> transport;
  private Supplier<String> token;
  private TlsChannelCredentials.Builder tls; // null: in the clear
  private Duration timeout = Duration.ofSeconds(30);
  private Duration bulkTimeout = Duration.ofHours(1);
  private int attempts = 4;

  /** Take what makes a channel of credentials; those are null where nothing was said about TLS. */
  ClientBuilder(Function<ChannelCredentials, ManagedChannelBuilder<?>> transport) {
    this.transport = transport;
  }

  static ClientBuilder to(String target) {
    Objects.requireNonNull(target, "target");
    ChannelCredentials clear = InsecureChannelCredentials.create();
    return new ClientBuilder(chosen -> Grpc.newChannelBuilder(target, Objects.requireNonNullElse(chosen, clear)));
  }

  static ClientBuilder over(ManagedChannelBuilder<?> channel) {
    return new ClientBuilder(chosen -> {
      if (chosen != null) {
        throw new IllegalStateException("the given channel decides about TLS");
      }
      return channel;
    });
  }

  /**
   * Send an API key of a service, or a token of a user, with each call. Use TLS on any network that others share: without
   * it the token travels in the clear.
   *
   * @param token what stands behind "Bearer "; empty: none
   * @return this
   */
  public ClientBuilder token(String token) {
    return token(() -> token);
  }

  /**
   * Ask for the token of each call, for tokens that expire.
   *
   * @param source returns what stands behind "Bearer "; several threads may ask it at once. If it throws, the call fails
   *     with UNAUTHENTICATED and that cause
   * @return this
   */
  public ClientBuilder token(Supplier<String> source) {
    this.token = source;
    return this;
  }

  /**
   * Talk TLS, and trust the authorities that Java trusts.
   *
   * @return this
   */
  public ClientBuilder tls() {
    tls = tls == null ? TlsChannelCredentials.newBuilder() : tls;
    return this;
  }

  /**
   * Talk TLS, and trust other authorities instead.
   *
   * @param file their certificates, as PEM
   * @return this
   * @throws UncheckedIOException if the file cannot be read
   */
  public ClientBuilder tlsAuthorities(Path file) {
    tls();
    return reading(() -> tls.trustManager(file.toFile()));
  }

  /**
   * Talk TLS, and present a certificate, where the server wants one.
   *
   * @param chain the certificate, and those up to its authority, as PEM
   * @param key its private key, as PEM (PKCS #8)
   * @return this
   * @throws UncheckedIOException if a file cannot be read
   */
  public ClientBuilder tlsIdentity(Path chain, Path key) {
    tls();
    return reading(() -> tls.keyManager(chain.toFile(), key.toFile()));
  }

  /**
   * Bound each call, retries included.
   *
   * @param timeout more than 0. Default: 30 seconds
   * @return this
   */
  public ClientBuilder timeout(Duration timeout) {
    this.timeout = Calls.checked(timeout);
    return this;
  }

  /**
   * Bound each import and export.
   *
   * @param timeout more than 0. Default: an hour
   * @return this
   */
  public ClientBuilder bulkTimeout(Duration timeout) {
    this.bulkTimeout = Calls.checked(timeout);
    return this;
  }

  /**
   * Say how often a call that meets UNAVAILABLE is sent in all.
   *
   * @param attempts 1 to 5. Default: 4
   * @return this
   */
  public ClientBuilder attempts(int attempts) {
    if (attempts < 1 || attempts > RetryPolicy.MAX_ATTEMPTS) {
      throw new IllegalArgumentException("attempts must be 1 to " + RetryPolicy.MAX_ATTEMPTS + ": " + attempts);
    }
    this.attempts = attempts;
    return this;
  }

  /**
   * Make the client. It connects at the first call.
   *
   * @return a client, to be closed
   * @throws IllegalArgumentException if the target cannot be meant
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
