// Writes a message, searches for it, and runs recalls.
import io.nomemory.client.NoMemoryClient;
import io.nomemory.client.NoMemoryException;
import io.nomemory.v1.*;

public class Quickstart {
  public static void main(String[] args) {
    try (var memory = NoMemoryClient.connect("127.0.0.1:7700")) {
      var message = ChatMessage.newBuilder()
          .setUserId("ann").setRole(Role.ROLE_USER)
          .setContent("I never eat spicy food.");
      var written = memory.writeMessages(WriteMessagesRequest.newBuilder().addMessages(message).build());

      var search = LexicalSearchRequest.newBuilder()
          .setUserId("ann").setQueryText("\"spicy food\"").setAtLeast(written.getWriteToken())
          .build();
      for (var hit : memory.lexicalHits(search)) { // reads page by page
        System.out.println("found: " + hit.message().getContent());
      }

      var question = RecallRequest.newBuilder()
          .setQuestion("Do I eat spicy food?").setAtLeast(written.getWriteToken())
          .build();
      var answer = memory.boundTo("ann").recall(question);
      for (var statement : answer.getMemoryView().getPreferencesList()) {
        System.out.println("recalled: " + statement.getCitations(0).getQuote());
      }

      var streamed = StreamRecallRequest.newBuilder()
          .setQuestion("Do I eat spicy food?").setAtLeast(written.getWriteToken())
          .build();
      try (var events = memory.boundTo("ann").streamRecall(streamed)) { // closing it cancels the recall
        for (var event : events) {
          if (event.hasStep()) {
            System.out.println("step: " + event.getStep().getTool() + " " + event.getStep().getObservation());
          } else {
            System.out.println("verdict: " + event.getResult().getVerdict());
          }
        }
      }
    } catch (NoMemoryException failed) {
      System.err.println(failed.reason() + ": " + failed.getMessage());
      System.exit(1);
    }
  }
}
