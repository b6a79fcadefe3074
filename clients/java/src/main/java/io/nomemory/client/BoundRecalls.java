package io.nomemory.client;

import io.nomemory.v1.BuildContextRequest;
import io.nomemory.v1.BuildContextResponse;
import io.nomemory.v1.RecallRequest;
import io.nomemory.v1.RecallResponse;
import io.nomemory.v1.RecallServiceGrpc;
import io.nomemory.v1.StreamRecallRequest;
import io.nomemory.v1.StreamRecallResponse;

/** Recalls for one user. Returned by {@link NoMemoryClient#boundTo}. */
public final class BoundRecalls {
  private final Calls calls;

  BoundRecalls(Calls calls) {
    this.calls = calls;
  }

  /**
   * Answer a question from the messages of the user.
   *
   * @param question the request
   * @return the answer with its evidence
   * @throws NoMemoryException if the call fails
   */
  public RecallResponse recall(RecallRequest question) {
    return calls.unary(RecallServiceGrpc.getRecallMethod(), question);
  }

  /**
   * Select messages of the user for the prompt of an assistant.
   *
   * @param request the latest turns, the current conversation, and the token limit
   * @return the messages, and the same messages as text
   * @throws NoMemoryException if the call fails
   */
  public BuildContextResponse buildContext(BuildContextRequest request) {
    return calls.unary(RecallServiceGrpc.getBuildContextMethod(), request);
  }

  /**
   * Run a recall and return each step as it completes, then the result. Closing the stream cancels the recall.
   *
   * @param question the request
   * @return the steps, then the result; reading it throws an exception if the call fails
   */
  public Replies<StreamRecallResponse> streamRecall(StreamRecallRequest question) {
    return calls.stream(RecallServiceGrpc.getStreamRecallMethod(), question);
  }
}
