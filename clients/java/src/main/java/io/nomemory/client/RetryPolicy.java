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
 * Lets gRPC send calls again. Every call of the contract may be: reads and recalls change nothing, deletions and writes of
 * messages with ids are idempotent, and other writes have a request id. A stream is not sent again once something of it has
 * arrived.
 */
final class RetryPolicy {
  static final int MAX_ATTEMPTS = 5; // what gRPC itself caps a policy at
  private static final long CALL_BYTES = 16 << 20; // as much as a server takes; a larger call is sent once
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

  /** Return the policy as JSON has it, where all numbers are doubles. */
  private static Map<String, ?> policy(int attempts) {
    return Map.of("maxAttempts", (double) attempts, "initialBackoff", "0.1s", "maxBackoff", "2s", "backoffMultiplier", 3.0,
        "retryableStatusCodes", List.of("UNAVAILABLE"));
  }
}
