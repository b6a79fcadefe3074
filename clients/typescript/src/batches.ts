import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { ImportMessagesRequestSchema, type ImportMessagesRequest } from "./gen/nomemory/v1/ingest_service_pb.js";
import { ChatMessageSchema, type ChatMessage } from "./gen/nomemory/v1/message_pb.js";

const BATCH_MESSAGES = 1_000;
const BATCH_BYTES = 4_000_000; // well below what a server takes in one request

/** A message to write. */
export type NewMessage = MessageInitShape<typeof ChatMessageSchema>;

/** Cut messages into requests within the server's limits, lazily. */
export async function* batches(
  messages: Iterable<NewMessage> | AsyncIterable<NewMessage>,
  replace: boolean,
): AsyncGenerator<ImportMessagesRequest> {
  let batch: ChatMessage[] = [];
  let size = 0;
  for await (const given of messages) {
    const message = create(ChatMessageSchema, given);
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

/** Return a fresh request id for messages of which some have no id, so that a retry does not store them twice. */
export function requestId(messages: Iterable<NewMessage>): string {
  return [...messages].every((message) => message.messageId) ? "" : randomHex();
}

/** Return 128 random bits. `crypto.randomUUID` is missing in pages that do not come over HTTPS. */
function randomHex(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
