package io.nomemory.client;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;

/** A call with many requests and one reply. It sends no faster than the server takes. */
final class Upload<Q, R> extends ClientCall.Listener<R> {
  private final ClientCall<Q, R> call;
  private R reply;
  private StatusRuntimeException ended; // once it is over; its code may be OK

  private Upload(ClientCall<Q, R> call) {
    this.call = call;
  }

  /** Send all requests and return the reply. Whatever goes wrong on this side cancels the call. */
  static <Q, R> R sent(ClientCall<Q, R> call, Iterator<Q> requests) {
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
        call.cancel("the import was given up", null);
      }
    }
  }

  private R send(Iterator<Q> requests) throws InterruptedException {
    call.start(this, new Metadata());
    call.request(2); // a second reply would be an error, which gRPC reports
    while (requests.hasNext()) {
      Q request = requests.next();
      if (!awaitRoom()) {
        return result(); // the server ended the call, and its status tells why
      }
      call.sendMessage(request);
    }
    call.halfClose();
    return result();
  }

  /** Wait until the call takes a request; false: it is over. */
  private synchronized boolean awaitRoom() throws InterruptedException {
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
