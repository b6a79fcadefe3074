// One message, whole: what was said, and everything that is known of it.
import { button, element } from "./element.js";
import { marked } from "./spans.js";
import { who } from "./message.js";

export class MessageCard {
  constructor({ closed }) {
    this.node = element("article", { class: "card", hidden: true, label: "card", tabindex: "-1" });
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.closed = closed;
  }

  show(message, spans = []) {
    const head = element("header", {},
      element("strong", who(message)),
      element("time", { moment: message.ts, datetime: message.ts }),
      button("close", () => this.close(), { class: "quiet" }),
    );
    const text = element("p", { class: "whole" }, marked(message.content ?? "", spans));
    this.node.replaceChildren(head, text, facts(message));
    this.node.hidden = false;
  }

  close() {
    if (this.node.hidden) return;
    this.node.hidden = true;
    this.closed();
  }
}

function facts(message) {
  const known = [
    [{ word: "card.id" }, message.messageId],
    message.conversationId && [{ word: "card.conversation" }, message.conversationId],
    message.expireTs && [{ word: "card.expires" }, message.expireTs],
    ...Object.entries(message.metadata ?? {}).map(([key, value]) => [{ text: key }, value]),
  ].filter(Boolean);
  return element("dl", {}, known.map(([term, value]) => [element("dt", term), element("dd", { text: value })]));
}
