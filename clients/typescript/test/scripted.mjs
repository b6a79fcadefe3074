import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { IngestService, NoMemory, QueryService, RecallService } from "@nomemory/client";

/**
 * Create a client of a server with the responses of a test.
 * @param {{
 *   query?: Partial<import("@connectrpc/connect").ServiceImpl<typeof QueryService>>,
 *   ingest?: Partial<import("@connectrpc/connect").ServiceImpl<typeof IngestService>>,
 *   recall?: Partial<import("@connectrpc/connect").ServiceImpl<typeof RecallService>>,
 * }} script
 * @param {import("@nomemory/client").ClientOptions} [options]
 */
export function clientOf({ query = {}, ingest = {}, recall = {} }, options = {}) {
  const transport = createRouterTransport(({ service }) => {
    service(QueryService, query);
    service(IngestService, ingest);
    service(RecallService, recall);
  });
  return new NoMemory(transport, options);
}

export function busy() {
  return new ConnectError("busy", Code.Unavailable);
}

/**
 * @template T
 * @param {AsyncIterable<T>} values
 */
export async function collected(values) {
  const all = [];
  for await (const value of values) {
    all.push(value);
  }
  return all;
}
