import { fromJson, toJson } from "@bufbuild/protobuf";
import * as contract from "@nomemory/client";

/**
 * @typedef {import("@bufbuild/protobuf").DescMessage} DescMessage
 * @typedef {import("./play.mjs").Step} Step
 */

const services = [
  contract.QueryService,
  contract.IngestService,
  contract.RecallService,
  contract.ServerService,
];
const methods = new Map(services.flatMap((service) => service.methods.map((method) => [method.name, method])));

/** The iterators of the client and their item types, by RPC. */
const listings = new Map(
  Object.entries({
    ListMessages: { iterator: "messages", item: contract.ChatMessageSchema },
    LexicalSearch: { iterator: "lexicalHits", item: contract.ChatMessageSchema },
    ListConversations: { iterator: "conversations", item: contract.ConversationSchema },
    ListUsers: { iterator: "users", item: contract.UserSummarySchema },
  }),
);

/**
 * Make the call of a step. Yield the response, all responses of a stream, or all items of a listing, as JSON.
 * @param {any} client
 * @param {Step} step
 * @param {any} json
 */
export async function* called(client, step, json) {
  const method = methods.get(step.call);
  if (!method) {
    throw new Error(`the API has no RPC ${step.call}`);
  }
  const request = /** @type {any} */ (fromJson(method.input, json));
  const listing = step.all ? listings.get(step.call) : undefined;
  if (listing) {
    for await (const item of client[listing.iterator](request)) {
      yield toJson(listing.item, step.call === "LexicalSearch" ? item.message : item);
    }
  } else if (method.methodKind === "server_streaming") {
    const replies =
      step.call === "StreamRecall" ? bound(client, step).streamRecall(request) : client.exportMessages(request);
    for await (const reply of replies) {
      yield toJson(method.output, reply);
    }
  } else {
    yield toJson(method.output, await one(client, step, request));
  }
}

/**
 * @param {any} client
 * @param {Step} step
 * @param {any} request
 */
function one(client, step, request) {
  switch (step.call) {
    case "ImportMessages":
      return client.importMessages(request.messages);
    case "Recall":
      return bound(client, step).recall(request);
    case "BuildContext":
      return bound(client, step).buildContext(request);
    case "GetServerInfo":
      return client.getServerInfo();
    default:
      return client[step.call.charAt(0).toLowerCase() + step.call.slice(1)](request);
  }
}

/**
 * @param {contract.NoMemory} client
 * @param {Step} step
 */
function bound(client, step) {
  return step.for === undefined ? client : client.boundTo(step.for);
}
