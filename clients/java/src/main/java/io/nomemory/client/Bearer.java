package io.nomemory.client;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Adds the bearer token to each attempt of a call. A null or empty token is omitted. */
final class Bearer extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Supplier<String> token;

  Bearer(Supplier<String> token) {
    this.token = token;
  }

  @Override
  public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
    executor.execute(() -> apply(applier));
  }

  private void apply(MetadataApplier applier) {
    Metadata headers = new Metadata();
    try {
      String value = token.get();
      if (value != null && !value.isEmpty()) {
        headers.put(AUTHORIZATION, "Bearer " + value);
      }
    } catch (RuntimeException failed) { // thrown by the supplier of the application
      applier.fail(Status.UNAUTHENTICATED.withDescription("the token supplier failed").withCause(failed));
      return;
    }
    applier.apply(headers);
  }
}
