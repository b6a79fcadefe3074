import type { ChatMessage } from "./gen/nomemory/v1/message_pb.js";
import type { Highlight, LexicalSearchResponse } from "./gen/nomemory/v1/query_service_pb.js";

/** A matching message with its score. `highlight` is undefined unless the request asks for highlights. */
export interface LexicalHit {
  readonly message: ChatMessage;
  readonly score: number;
  readonly highlight: Highlight | undefined;
}

/** Combine the items, scores and highlights of a page. */
export function lexicalHits(page: LexicalSearchResponse): LexicalHit[] {
  return page.items.map((message, index) => ({
    message,
    score: page.scores[index]?.score ?? 0,
    highlight: page.highlights[index],
  }));
}

/** Yield the items of all pages, starting at the cursor of the request. */
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
