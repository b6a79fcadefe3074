export { Code } from "@connectrpc/connect";
export type { NewMessage } from "./batches.js";
export { NoMemory, type CallOptions } from "./client.js";
export { NoMemoryError, type Violation } from "./errors.js";
export type { ClientOptions, Token } from "./options.js";
export { lexicalHits, type LexicalHit } from "./pages.js";
export { Recalls, type ContextRequest, type Question, type StreamedQuestion } from "./recalls.js";

export * from "./gen/nomemory/v1/error_reason_pb.js";
export * from "./gen/nomemory/v1/ingest_service_pb.js";
export * from "./gen/nomemory/v1/message_pb.js";
export * from "./gen/nomemory/v1/query_service_pb.js";
export * from "./gen/nomemory/v1/recall_service_pb.js";
export * from "./gen/nomemory/v1/server_service_pb.js";
