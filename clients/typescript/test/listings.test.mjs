import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, decodeBinaryHeader } from "@connectrpc/connect";
import { NoMemory, NoMemoryError } from "@nomemory/client";
import { busy, clientOf, collected } from "./scripted.mjs";

/** Return messages 1 to 5 in pages of two. */
function pages() {
  const asked = { times: 0 };
  const client = clientOf({
    query: {
      listMessages({ cursor }) {
        asked.times += 1;
        const first = Number(cursor || "1");
        const items = [first, first + 1].filter((number) => number <= 5).map((number) => ({ messageId: `${number}` }));
        return { items, nextCursor: first + 2 <= 5 ? `${first + 2}` : "" };
      },
    },
  });
  return { asked, client };
}

test("an iterator reads all pages", async () => {
  const { client } = pages();
  const request = { userId: "ann" };
  for (let again = 0; again < 2; again += 1) {
    const read = await collected(client.messages(request));
    assert.deepEqual(read.map((message) => message.messageId), ["1", "2", "3", "4", "5"]);
  }
  assert.deepEqual(request, { userId: "ann" });
});

test("leaving the loop stops paging", async () => {
  const { asked, client } = pages();
  for await (const message of client.messages({})) {
    if (message.messageId === "2") {
      break;
    }
  }
  assert.equal(asked.times, 1);
});

test("an iterator throws the error of its call", async () => {
  const client = clientOf({
    query: {
      lexicalSearch() {
        throw new ConnectError("no", Code.PermissionDenied);
      },
    },
  });
  await assert.rejects(collected(client.lexicalHits({})), NoMemoryError);
});

test("a bound recall sends the user", async () => {
  /** @type {(string | null)[][]} */
  const seen = [];
  const client = clientOf({
    recall: {
      recall(_, { requestHeader }) {
        seen.push([requestHeader.get("x-user-id"), requestHeader.get("x-user-id-bin")]);
        return {};
      },
    },
  });
  for (const user of ["lin", "王小明", " lin"]) {
    await client.boundTo(user).recall({ question: "?" });
  }
  await client.recall({ question: "?" });
  assert.deepEqual([seen[0], seen[3]], [["lin", null], [null, null]]);
  const texts = seen.slice(1, 3).map(([, bytes]) => new TextDecoder().decode(decodeBinaryHeader(bytes ?? "")));
  assert.deepEqual(texts, ["王小明", " lin"]);
});

test("a stream yields its steps, then its error; it is retried before the first step", async () => {
  let opened = 0;
  const client = clientOf({
    recall: {
      async *streamRecall() {
        opened += 1;
        if (opened === 1) {
          throw busy();
        }
        yield { event: { case: "step", value: { tool: "x" } } };
        throw busy();
      },
    },
  });
  /** @type {unknown[]} */
  const steps = [];
  await assert.rejects(
    async () => {
      for await (const { event } of client.streamRecall({ question: "?" })) {
        steps.push(event.case);
      }
    },
    { name: "NoMemoryError", code: Code.Unavailable },
  );
  assert.deepEqual([opened, steps], [2, ["step"]]);
});

test("leaving the loop cancels a recall", async () => {
  /** @type {Promise<void>} */
  let cancelled = Promise.reject(new Error("the stream was not opened"));
  cancelled.catch(() => {});
  const client = clientOf({
    recall: {
      async *streamRecall(_, { signal }) {
        cancelled = new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
        yield { event: { case: "step", value: {} } };
        await cancelled;
      },
    },
  });
  for await (const { event } of client.boundTo("lin").streamRecall({ question: "?" })) {
    assert.equal(event.case, "step");
    break;
  }
  await cancelled;
});

test("leaving the loop stops the timer of the transport", async () => {
  let told = false;
  const transport = {
    /** @param {unknown} _ @param {AbortSignal} signal */
    async stream(_, signal) {
      const next = () => {
        told = signal.aborted;
        return told ? Promise.reject(signal.reason) : Promise.resolve({ done: false, value: {} });
      };
      return { message: { [Symbol.asyncIterator]: () => ({ next }) } };
    },
  };
  const client = new NoMemory(/** @type {any} */ (transport));
  for await (const _ of client.exportMessages({ userId: "lin" })) {
    break;
  }
  assert(told);
});

test("an import is split into batches", async () => {
  /** @type {{ size: number, requestId: string, replace: boolean }[]} */
  const batches = [];
  const client = clientOf({
    ingest: {
      async importMessages(requests) {
        for await (const { messages, requestId, replace } of requests) {
          batches.push({ size: messages.length, requestId, replace });
        }
        return { created: 1n };
      },
    },
  });
  const short = Array.from({ length: 1_001 }, () => ({ messageId: "1" }));
  const long = Array.from({ length: 20 }, () => ({ content: "x".repeat(200_000) }));
  const { created } = await client.importMessages([...short, ...long], { replace: true });
  assert.equal(created, 1n);
  assert.deepEqual(batches.map(({ size }) => size), [1_000, 20, 1]);
  assert(batches.every(({ replace }) => replace));
  assert.deepEqual(batches.map(({ requestId }) => requestId === ""), [true, false, false]);
});
