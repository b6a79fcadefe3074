package io.nomemory.client;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Gives each attempt of a call its credential. A source that has none leaves it out. */
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
      String given = token.get();
      if (given != null && !given.isEmpty()) {
        headers.put(AUTHORIZATION, "Bearer " + given);
      }
    } catch (RuntimeException failed) { // the caller's own code; whatever it is, the call has to end
      applier.fail(Status.UNAUTHENTICATED.withDescription("the source of the token failed").withCause(failed));
      return;
    }
    applier.apply(headers);
  }
}
