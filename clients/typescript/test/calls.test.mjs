import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../dist/gen/google/rpc/error_details_pb.js";
import { ErrorReason, NoMemoryError } from "@nomemory/client";
import { busy, clientOf } from "./scripted.mjs";

test("an error has the reason and all violations", async () => {
  const client = clientOf({
    query: {
      listMessages() {
        throw new ConnectError("bad", Code.InvalidArgument, { "x-request-id": "r1" }, [
          { desc: ErrorInfoSchema, value: { reason: "ERROR_REASON_INVALID_FIELD", metadata: { violations: "2" } } },
          {
            desc: BadRequestSchema,
            value: { fieldViolations: [{ field: "user_id", description: "is required" }, { field: "page_size" }] },
          },
          { desc: RetryInfoSchema, value: { retryDelay: { seconds: 1n } } },
        ]);
      },
    },
  });
  await assert.rejects(client.listMessages({}), (error) => {
    assert(error instanceof NoMemoryError);
    assert.equal(error.code, Code.InvalidArgument);
    assert.equal(error.reason, ErrorReason.INVALID_FIELD);
    assert.deepEqual(error.violations, [
      { field: "user_id", description: "is required" },
      { field: "page_size", description: "" },
    ]);
    assert.deepEqual([error.requestId, error.retryAfterMs, error.metadata], ["r1", 1000, { violations: "2" }]);
    return true;
  });
});

test("a retried write keeps its request id", async () => {
  /** @type {string[]} */
  const ids = [];
  const client = clientOf({
    ingest: {
      writeMessages({ requestId }) {
        ids.push(requestId);
        if (ids.length < 3) {
          throw busy();
        }
        return { writeToken: "w" };
      },
    },
  });
  const { writeToken } = await client.writeMessages({ messages: [{ messageId: "1" }, { content: "no id" }] });
  assert.equal(writeToken, "w");
  assert.equal(ids.length, 3);
  assert.equal(new Set(ids).size, 1);
  assert.notEqual(ids[0], "");
});

test("a write with ids gets no request id, and a given request id is kept", async () => {
  /** @type {string[]} */
  const ids = [];
  const client = clientOf({
    ingest: {
      writeMessages({ requestId }) {
        ids.push(requestId);
        return {};
      },
    },
  });
  await client.writeMessages({ messages: [{ messageId: "1" }] });
  await client.writeMessages({ messages: [{}], requestId: "mine" });
  assert.deepEqual(ids, ["", "mine"]);
});

test("attempts are limited", async () => {
  for (const attempts of [1, 2]) {
    let sent = 0;
    const client = clientOf(
      {
        query: {
          countMessages() {
            sent += 1;
            throw busy();
          },
        },
      },
      { attempts },
    );
    await assert.rejects(client.countMessages({}), { code: Code.Unavailable });
    assert.equal(sent, attempts);
  }
  assert.throws(() => clientOf({}, { attempts: 6 }), RangeError);
});

test("errors other than UNAVAILABLE are not retried", async () => {
  let sent = 0;
  const client = clientOf({
    query: {
      countMessages() {
        sent += 1;
        throw new ConnectError("no", Code.PermissionDenied);
      },
    },
  });
  await assert.rejects(client.countMessages({}), { code: Code.PermissionDenied });
  assert.equal(sent, 1);
});

test("a call ends at its deadline or when its signal is aborted", async () => {
  const client = clientOf(
    {
      query: {
        countMessages: (_, { signal }) =>
          new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      },
    },
    { timeoutMs: 50 },
  );
  await assert.rejects(client.countMessages({}), { code: Code.DeadlineExceeded });
  const call = client.countMessages({}, { signal: AbortSignal.abort() });
  await assert.rejects(call, { code: Code.Canceled });
});

test("a token function is called for each call", async () => {
  /** @type {(string | null)[]} */
  const seen = [];
  let number = 0;
  const client = clientOf(
    {
      query: {
        countMessages(_, { requestHeader }) {
          seen.push(requestHeader.get("authorization"));
          return {};
        },
      },
    },
    { token: async () => `t${++number}` },
  );
  await client.countMessages({});
  await client.countMessages({});
  assert.deepEqual(seen, ["Bearer t1", "Bearer t2"]);
});
