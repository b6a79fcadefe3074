package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.Highlight;
import io.nomemory.v1.LexicalSearchResponse;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * A message that matched.
 *
 * @param message what was said
 * @param score how well it matched
 * @param highlight where it matched; there only if highlights were asked for
 */
public record LexicalHit(ChatMessage message, float score, Optional<Highlight> highlight) {
  /**
   * Return the hits of a page, from its parallel lists.
   *
   * @param page the reply to a search
   * @return the hits, best first
   */
  public static List<LexicalHit> of(LexicalSearchResponse page) {
    return IntStream.range(0, page.getItemsCount()).mapToObj(place -> at(page, place)).toList();
  }

  private static LexicalHit at(LexicalSearchResponse page, int place) {
    boolean highlighted = place < page.getHighlightsCount();
    return new LexicalHit(page.getItems(place), page.getScores(place).getScore(),
        highlighted ? Optional.of(page.getHighlights(place)) : Optional.empty());
  }
}
