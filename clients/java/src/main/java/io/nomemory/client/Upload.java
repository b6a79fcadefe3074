package io.nomemory.client;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;

/** A client-streaming call with flow control. */
final class Upload<Q, R> extends ClientCall.Listener<R> {
  private final ClientCall<Q, R> call;
  private R reply;
  private StatusRuntimeException ended; // set when the call ends; its code may be OK

  private Upload(ClientCall<Q, R> call) {
    this.call = call;
  }

  /** Send all requests and return the response. An error in the client cancels the call. */
  static <Q, R> R run(ClientCall<Q, R> call, Iterator<Q> requests) {
    Upload<Q, R> upload = new Upload<>(call);
    boolean done = false;
    try {
      R reply = upload.send(requests);
      done = true;
      return reply;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw Status.CANCELLED.withDescription("the thread was interrupted").withCause(interrupted).asRuntimeException();
    } finally {
      if (!done) {
        call.cancel("the import failed in the client", null);
      }
    }
  }

  private R send(Iterator<Q> requests) throws InterruptedException {
    call.start(this, new Metadata());
    call.request(2); // with 2, gRPC reports a second response as an error
    while (requests.hasNext()) {
      Q request = requests.next();
      if (!awaitReady()) {
        return result(); // the server ended the call; result() throws its status
      }
      call.sendMessage(request);
    }
    call.halfClose();
    return result();
  }

  /** Wait until the call accepts a request. Return false if the call has ended. */
  private synchronized boolean awaitReady() throws InterruptedException {
    while (ended == null && !call.isReady()) {
      wait();
    }
    return ended == null;
  }

  private synchronized R result() throws InterruptedException {
    while (ended == null) {
      wait();
    }
    if (!ended.getStatus().isOk()) {
      throw ended;
    }
    return reply;
  }

  @Override
  public synchronized void onReady() {
    notifyAll();
  }

  @Override
  public synchronized void onMessage(R message) {
    reply = message;
  }

  @Override
  public synchronized void onClose(Status status, Metadata trailers) {
    ended = status.asRuntimeException(trailers);
    notifyAll();
  }
}
