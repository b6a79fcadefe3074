package io.nomemory.client;

import com.google.protobuf.Timestamp;
import java.time.Instant;

/** Java's times as the contract's, and back. */
public final class Instants {
  private Instants() {}

  /**
   * Convert a time for a request. A server keeps microseconds and cuts off finer parts.
   *
   * @param instant the time
   * @return the same time, as the contract has it
   */
  public static Timestamp timestamp(Instant instant) {
    return Timestamp.newBuilder().setSeconds(instant.getEpochSecond()).setNanos(instant.getNano()).build();
  }

  /**
   * Convert a time from a reply.
   *
   * @param timestamp the time as the contract has it
   * @return the same time
   */
  public static Instant instant(Timestamp timestamp) {
    return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
  }
}
