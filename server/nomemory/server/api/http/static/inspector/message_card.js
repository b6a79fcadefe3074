// The card with the complete content and the details of a message.
import { button, element } from "./element.js";
import { marked } from "./spans.js";
import { authorProperties } from "./message.js";

export class MessageCard {
  // `go(id)` opens another message, `showConversation(id)` lists a conversation.
  constructor({ closed, go, showConversation }) {
    this.node = element("article", { class: "card", hidden: true, label: "card", tabindex: "-1" });
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    Object.assign(this, { closed, go, showConversation });
  }

  show(message, spans = []) {
    const head = element("header", {},
      element("strong", authorProperties(message)),
      element("time", { moment: message.ts, datetime: message.ts }),
      button("close", () => this.close(), { class: "quiet" }),
    );
    const text = element("p", { class: message.retractedBy ? "whole retracted" : "whole" }, marked(message.content ?? "", spans));
    this.node.replaceChildren(head, text, facts(message, this));
    this.node.hidden = false;
  }

  close() {
    if (this.node.hidden) return;
    this.node.hidden = true;
    this.closed();
  }
}

function facts(message, { go, showConversation }) {
  const linked = (ids) => ids.map((id) => element("button", { type: "button", class: "quiet", text: id, on: { click: () => go(id) } }));
  const entries = [
    [{ word: "card.id" }, message.messageId],
    message.conversationId && [{ word: "card.conversation" }, [message.conversationId, " ",
      button("card.showConversation", () => showConversation(message.conversationId), { class: "link" })]],
    message.expireTs && [{ word: "card.expires" }, element("time", { moment: message.expireTs })],
    message.retractedBy && [{ word: "card.retractedBy" }, linked([message.retractedBy])],
    message.retracts && [{ word: "card.retracts" }, linked(message.retracts)],
    ...Object.entries(message.metadata ?? {}).map(([key, value]) => [{ text: key }, value]),
  ].filter(Boolean);
  return element("dl", {}, entries.map(([term, value]) => [element("dt", term), element("dd", {}, value)]));
}
