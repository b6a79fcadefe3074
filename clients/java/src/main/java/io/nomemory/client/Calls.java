package io.nomemory.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Makes calls over a channel, each within a time, and fails with our exception. */
record Calls(Channel channel, Duration timeout) {
  Calls {
    checked(timeout);
  }

  /** Return a timeout that is one. */
  static Duration checked(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero()) {
      throw new IllegalArgumentException("a timeout must be more than 0: " + timeout);
    }
    return timeout;
  }

  /** Return the same calls with metadata added to them. */
  Calls with(Metadata headers) {
    return new Calls(ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers)), timeout);
  }

  <Q, R> R unary(MethodDescriptor<Q, R> method, Q request) {
    return failing(() -> ClientCalls.blockingUnaryCall(channel, method, options(), request));
  }

  <Q, R> Replies<R> stream(MethodDescriptor<Q, R> method, Q request) {
    return new Replies<>(() -> ClientCalls.blockingServerStreamingCall(channel, method, options(), request));
  }

  <Q, R> R upload(MethodDescriptor<Q, R> method, Iterator<Q> requests) {
    return failing(() -> Upload.sent(channel.newCall(method, options()), requests));
  }

  private CallOptions options() {
    return CallOptions.DEFAULT.withDeadlineAfter(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
  }

  private static <R> R failing(Supplier<R> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException failed) {
      throw NoMemoryException.of(failed);
    }
  }
}
