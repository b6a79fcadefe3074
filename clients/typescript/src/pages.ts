import type { ChatMessage } from "./gen/nomemory/v1/message_pb.js";
import type { Highlight, LexicalSearchResponse } from "./gen/nomemory/v1/query_service_pb.js";

/** A message that matched, and its score. `highlight` is there only if highlights were asked for. */
export interface LexicalHit {
  readonly message: ChatMessage;
  readonly score: number;
  readonly highlight: Highlight | undefined;
}

/** Return the hits of a page, best first, from its parallel lists. */
export function lexicalHits(page: LexicalSearchResponse): LexicalHit[] {
  return page.items.map((message, place) => ({
    message,
    score: page.scores[place]?.score ?? 0,
    highlight: page.highlights[place],
  }));
}

/** Yield everything that a listing has, page by page, from a request's cursor on. */
export async function* all<Request extends { cursor?: string }, Page extends { nextCursor: string }, Item>(
  request: Request,
  read: (request: Request) => Promise<Page>,
  items: (page: Page) => Iterable<Item>,
): AsyncGenerator<Item> {
  for (let next = request; ; ) {
    const page = await read(next);
    yield* items(page);
    if (page.nextCursor === "") {
      return;
    }
    next = { ...request, cursor: page.nextCursor };
  }
}
