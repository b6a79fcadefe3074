package io.nomemory.client;

import io.grpc.ManagedChannelBuilder;
import io.nomemory.v1.IngestServiceGrpc;
import io.nomemory.v1.QueryServiceGrpc;
import io.nomemory.v1.RecallServiceGrpc;
import io.nomemory.v1.ServerServiceGrpc;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Configures the retries of gRPC. All RPCs can be retried: reads and recalls have no side effects, deletions and writes of
 * messages with ids are idempotent, and other writes have a request id. A stream is not retried after its first response.
 */
final class RetryPolicy {
  static final int MAX_ATTEMPTS = 5; // the limit of gRPC
  private static final long CALL_BYTES = 16 << 20; // the server's limit on the request size
  private static final long ALL_BYTES = 4 * CALL_BYTES;

  private RetryPolicy() {}

  static void apply(ManagedChannelBuilder<?> channel, int attempts) {
    if (attempts == 1) {
      channel.disableRetry();
      return;
    }
    channel.enableRetry().perRpcBufferLimit(CALL_BYTES).retryBufferSize(ALL_BYTES)
        .defaultServiceConfig(Map.of("methodConfig", List.of(Map.of("name", services(), "retryPolicy", policy(attempts)))));
  }

  private static List<Map<String, String>> services() {
    return Stream.of(QueryServiceGrpc.SERVICE_NAME, IngestServiceGrpc.SERVICE_NAME, RecallServiceGrpc.SERVICE_NAME,
            ServerServiceGrpc.SERVICE_NAME)
        .map(name -> Map.of("service", name)).toList();
  }

  /** Return the policy in the JSON format of gRPC, in which all numbers are doubles. */
  private static Map<String, ?> policy(int attempts) {
    return Map.of("maxAttempts", (double) attempts, "initialBackoff", "0.1s", "maxBackoff", "2s", "backoffMultiplier", 3.0,
        "retryableStatusCodes", List.of("UNAVAILABLE"));
  }
}
