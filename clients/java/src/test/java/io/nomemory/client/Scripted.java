package io.nomemory.client;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.grpc.util.MutableHandlerRegistry;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** A server with the responses of a test. It records the requests. */
final class Scripted implements AutoCloseable {
  static final StatusRuntimeException BUSY = Status.UNAVAILABLE.withDescription("busy").asRuntimeException();

  final List<Metadata> asked = new CopyOnWriteArrayList<>();
  private final MutableHandlerRegistry methods = new MutableHandlerRegistry();
  private final Server server;
  private final Supplier<ClientBuilder> builder;

  Scripted() throws IOException {
    String name = InProcessServerBuilder.generateName();
    server = started(InProcessServerBuilder.forName(name));
    builder = () -> NoMemoryClient.builder(InProcessChannelBuilder.forName(name));
  }

  /** Serve on a port, because in-process calls do not limit the message size. */
  Scripted(int messageMaxBytes) throws IOException {
    server = started(Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
        .maxInboundMessageSize(messageMaxBytes));
    builder = () -> NoMemoryClient.builder("127.0.0.1:" + server.getPort());
  }

  private Server started(ServerBuilder<?> with) throws IOException {
    return with.fallbackHandlerRegistry(methods).intercept(new Hearing()).build().start();
  }

  NoMemoryClient client() {
    return client(as -> as);
  }

  NoMemoryClient client(UnaryOperator<ClientBuilder> chosen) {
    return chosen.apply(builder.get()).build();
  }

  <Q, R> void unary(MethodDescriptor<Q, R> method, ServerCalls.UnaryMethod<Q, R> answer) {
    serve(ServerServiceDefinition.builder(method.getServiceName()).addMethod(method, ServerCalls.asyncUnaryCall(answer)));
  }

  <Q, R> void replies(MethodDescriptor<Q, R> method, ServerCalls.ServerStreamingMethod<Q, R> answer) {
    serve(ServerServiceDefinition.builder(method.getServiceName())
        .addMethod(method, ServerCalls.asyncServerStreamingCall(answer)));
  }

  <Q, R> void requests(MethodDescriptor<Q, R> method, ServerCalls.ClientStreamingMethod<Q, R> answer) {
    serve(ServerServiceDefinition.builder(method.getServiceName())
        .addMethod(method, ServerCalls.asyncClientStreamingCall(answer)));
  }

  private void serve(ServerServiceDefinition.Builder service) {
    methods.addService(service.build());
  }

  /** Return one response. */
  static <R> void answer(StreamObserver<R> to, R reply) {
    to.onNext(reply);
    to.onCompleted();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private final class Hearing implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      asked.add(headers);
      return next.startCall(call, headers);
    }
  }
}
