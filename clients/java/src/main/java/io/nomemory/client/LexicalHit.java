package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.Highlight;
import io.nomemory.v1.LexicalSearchResponse;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * A matching message.
 *
 * @param message the message
 * @param score its lexical score
 * @param highlight the matching spans, if the request asks for highlights
 */
public record LexicalHit(ChatMessage message, float score, Optional<Highlight> highlight) {
  /**
   * Combine the items, scores and highlights of a page.
   *
   * @param page the response of a lexical search
   * @return the hits, best first
   */
  public static List<LexicalHit> of(LexicalSearchResponse page) {
    return IntStream.range(0, page.getItemsCount()).mapToObj(index -> at(page, index)).toList();
  }

  private static LexicalHit at(LexicalSearchResponse page, int index) {
    boolean highlighted = index < page.getHighlightsCount();
    return new LexicalHit(page.getItems(index), page.getScores(index).getScore(),
        highlighted ? Optional.of(page.getHighlights(index)) : Optional.empty());
  }
}
