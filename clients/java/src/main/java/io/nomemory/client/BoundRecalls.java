package io.nomemory.client;

import io.nomemory.v1.BuildContextRequest;
import io.nomemory.v1.BuildContextResponse;
import io.nomemory.v1.RecallRequest;
import io.nomemory.v1.RecallResponse;
import io.nomemory.v1.RecallServiceGrpc;
import io.nomemory.v1.StreamRecallRequest;
import io.nomemory.v1.StreamRecallResponse;

/** Recalls for one user. {@link NoMemoryClient#boundTo} makes it. */
public final class BoundRecalls {
  private final Calls calls;

  BoundRecalls(Calls calls) {
    this.calls = calls;
  }

  /**
   * Answer a question about the user from what was said.
   *
   * @param question the question, and where the search starts
   * @return the statements with their evidence
   * @throws NoMemoryException if it is refused or fails
   */
  public RecallResponse recall(RecallRequest question) {
    return calls.unary(RecallServiceGrpc.getRecallMethod(), question);
  }

  /**
   * Select the messages of the user that an assistant should have in its prompt.
   *
   * @param request the latest turns, the running conversation, and the limit of tokens
   * @return the messages, and the text that shows them
   * @throws NoMemoryException if it is refused or fails
   */
  public BuildContextResponse buildContext(BuildContextRequest request) {
    return calls.unary(RecallServiceGrpc.getBuildContextMethod(), request);
  }

  /**
   * Recall, and show each step as it happens, then the result. Closing the replies cancels the recall.
   *
   * @param question the question, and where the search starts
   * @return the steps, and last the result; what fails, fails in reading them
   */
  public Replies<StreamRecallResponse> streamRecall(StreamRecallRequest question) {
    return calls.stream(RecallServiceGrpc.getStreamRecallMethod(), question);
  }
}
