package io.nomemory.client;

import com.google.protobuf.Timestamp;
import java.time.Instant;

/** Conversions between {@link Instant} and protobuf timestamps. */
public final class Instants {
  private Instants() {}

  /**
   * Convert an instant to a timestamp. The server truncates timestamps to microseconds.
   *
   * @param instant the instant
   * @return the timestamp
   */
  public static Timestamp timestamp(Instant instant) {
    return Timestamp.newBuilder().setSeconds(instant.getEpochSecond()).setNanos(instant.getNano()).build();
  }

  /**
   * Convert a timestamp to an instant.
   *
   * @param timestamp the timestamp
   * @return the instant
   */
  public static Instant instant(Timestamp timestamp) {
    return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
  }
}
