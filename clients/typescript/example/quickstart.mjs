// Writes a message, searches for it, and runs recalls: node example/quickstart.mjs
import { NoMemoryError, Role, Verdict } from "@nomemory/client";
import { connect } from "@nomemory/client/node";

const memory = connect("127.0.0.1:7700");

const { writeToken } = await memory
  .writeMessages({
    messages: [{ userId: "ann", role: Role.USER, content: "I never eat spicy food." }],
  })
  .catch((error) => {
    console.error(error instanceof NoMemoryError ? error.violations : error);
    process.exit(1);
  });

const search = { userId: "ann", queryText: '"spicy food"', atLeast: writeToken };
for await (const hit of memory.lexicalHits(search)) { // reads page by page
  console.log("found:", hit.message.content);
}

const question = { question: "Do I eat spicy food?", atLeast: writeToken };
const answer = await memory.boundTo("ann").recall(question);
for (const statement of answer.memoryView?.preferences ?? []) {
  console.log("recalled:", statement.citations[0]?.quote);
}

for await (const { event } of memory.boundTo("ann").streamRecall(question)) {
  if (event.case === "step") {
    console.log("step:", event.value.tool, event.value.thought);
  } else if (event.case === "result") {
    console.log("verdict:", Verdict[event.value.verdict]);
  }
}

memory.close();
