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

/** Makes calls with a timeout over a channel, and converts exceptions. */
record Calls(Channel channel, Duration timeout) {
  Calls {
    positive(timeout);
  }

  /** Return the timeout. Throw an IllegalArgumentException if it is not positive. */
  static Duration positive(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero()) {
      throw new IllegalArgumentException("timeout must be positive, got " + timeout);
    }
    return timeout;
  }

  /** Return a copy that sends additional metadata with each call. */
  Calls with(Metadata headers) {
    return new Calls(ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers)), timeout);
  }

  <Q, R> R unary(MethodDescriptor<Q, R> method, Q request) {
    return convertingErrors(() -> ClientCalls.blockingUnaryCall(channel, method, options(), request));
  }

  <Q, R> Replies<R> stream(MethodDescriptor<Q, R> method, Q request) {
    return new Replies<>(() -> ClientCalls.blockingServerStreamingCall(channel, method, options(), request));
  }

  <Q, R> R upload(MethodDescriptor<Q, R> method, Iterator<Q> requests) {
    return convertingErrors(() -> Upload.run(channel.newCall(method, options()), requests));
  }

  private CallOptions options() {
    return CallOptions.DEFAULT.withDeadlineAfter(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
  }

  private static <R> R convertingErrors(Supplier<R> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException failed) {
      throw NoMemoryException.of(failed);
    }
  }
}
