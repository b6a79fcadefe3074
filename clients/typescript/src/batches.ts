import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { ImportMessagesRequestSchema, type ImportMessagesRequest } from "./gen/nomemory/v1/ingest_service_pb.js";
import { ChatMessageSchema, type ChatMessage } from "./gen/nomemory/v1/message_pb.js";

const BATCH_MESSAGES = 1_000;
const BATCH_BYTES = 4_000_000; // well below the server's limit on the request size

/** A message to write. */
export type NewMessage = MessageInitShape<typeof ChatMessageSchema>;

/** Split messages into requests within the server's limits. The messages are read lazily. */
export async function* batches(
  messages: Iterable<NewMessage> | AsyncIterable<NewMessage>,
  replace: boolean,
): AsyncGenerator<ImportMessagesRequest> {
  let batch: ChatMessage[] = [];
  let size = 0;
  for await (const init of messages) {
    const message = create(ChatMessageSchema, init);
    const length = toBinary(ChatMessageSchema, message).length;
    if (batch.length > 0 && (batch.length === BATCH_MESSAGES || size + length > BATCH_BYTES)) {
      yield request(batch, replace);
      batch = [];
      size = 0;
    }
    batch.push(message);
    size += length;
  }
  if (batch.length > 0) {
    yield request(batch, replace);
  }
}

function request(messages: ChatMessage[], replace: boolean): ImportMessagesRequest {
  return create(ImportMessagesRequestSchema, { messages, replace, requestId: requestId(messages) });
}

/** Return a new request id if a message has no id, so that a retry does not store it twice; otherwise "". */
export function requestId(messages: Iterable<NewMessage>): string {
  return [...messages].every((message) => message.messageId) ? "" : randomHex();
}

/** Return 128 random bits in hexadecimal. `crypto.randomUUID` is unavailable on pages without HTTPS. */
function randomHex(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
