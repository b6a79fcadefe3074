// The filters of the message search: author, days and conversation.
import { button, element } from "./element.js";
import { translate } from "./i18n.js";
import { ROLES } from "./message.js";

const CONVERSATIONS = "conversations";

export class MessageFilters {
  constructor({ changed }) {
    const options = [["", "filter.anyone"], ...Object.entries(ROLES).map(([role, name]) => [role, `role.${name}`])];
    this.role = element("select", { id: "filter-role" }, options.map(([value, word]) => element("option", { value, word })));
    this.from = element("input", { type: "date", id: "filter-from" });
    this.to = element("input", { type: "date", id: "filter-to" });
    this.conversation = element("input", {
      type: "text", id: "filter-conversation", list: CONVERSATIONS, autocomplete: "off", spellcheck: "false", hint: "filter.any",
    });
    this.known = element("datalist", { id: CONVERSATIONS });
    this.head = element("summary", {});
    this.reset = button("filter.clear", () => {
      this.clear();
      changed();
    }, { class: "link", hidden: true });
    // The browser shows a day in its own language; the label repeats it in the language of the page.
    this.days = new Map([this.from, this.to].map((input) => [input, element("time", { format: "day", hidden: true })]));
    const fields = [["author", this.role], ["from", this.from], ["to", this.to], ["conversation", this.conversation]];
    this.node = element("details", { class: "filters" }, this.head,
      element("div", { class: "fields" }, fields.map(([name, input]) => element("label", {},
        element("span", { word: `filter.${name}` }), this.days.has(input) && [" ", this.days.get(input)], input)),
        this.known, this.reset));
    for (const field of this.#fields) field.addEventListener("input", changed);
    this.refresh();
  }

  // Offer the conversations of messages, latest first.
  offer(messages) {
    const ids = new Set(messages.map(({ conversationId }) => conversationId).filter(Boolean).reverse());
    this.known.replaceChildren(...[...ids].map((value) => element("option", { value })));
  }

  get isActive() {
    return this.#active > 0;
  }

  // Return whether the first day is after the last day.
  get isReversed() {
    return this.from.value !== "" && this.to.value !== "" && this.from.value > this.to.value;
  }

  // Return the filter of a request. The last day is included.
  get filter() {
    const timeRange = {
      ...(this.from.value && { since: midnight(this.from.value, 0) }),
      ...(this.to.value && { until: midnight(this.to.value, 1) }),
    };
    return {
      ...(this.role.value && { role: this.role.value }),
      ...(Object.keys(timeRange).length && { timeRange }),
      ...(this.conversation.value.trim() && { conversationId: this.conversation.value.trim() }),
    };
  }

  clear() {
    for (const field of this.#fields) field.value = "";
  }

  // Show how many filters are active.
  refresh() {
    const active = this.#active;
    Object.assign(this.head.dataset, { word: active ? "filter.active" : "filter", args: JSON.stringify({ n: active }) });
    translate(this.head);
    for (const [input, day] of this.days) {
      day.hidden = !input.value;
      if (input.value) day.dataset.moment = midnight(input.value, 0);
      else delete day.dataset.moment;
      translate(day);
    }
    this.reset.hidden = !active;
    if (active) this.node.open = true;
  }

  get #fields() {
    return [this.role, this.from, this.to, this.conversation];
  }

  get #active() {
    return this.#fields.filter(({ value }) => value.trim()).length;
  }
}

// Return the beginning of a day in the time zone of the browser, some days later.
function midnight(day, days) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + days).toISOString();
}
