// The tabs. On wide screens, the messages are always visible next to the selected pane.
import { byId, element } from "./element.js";

const NAMES = ["messages", "recall", "compare", "state"];

export class Tabs {
  constructor({ chosen }) {
    this.chosen = chosen;
    this.tabs = NAMES.map((name) => element("button", {
      type: "button", id: `tab-${name}`, role: "tab", "aria-controls": name, word: name, on: { click: () => this.choose(name) },
    }));
    byId("tabs").append(...this.tabs);
    byId("tabs").addEventListener("keydown", (event) => this.#press(event));
    for (const name of NAMES) byId(name).setAttribute("aria-labelledby", `tab-${name}`);
  }

  // Show or hide the tab of a pane.
  offer(name, isOffered) {
    byId(`tab-${name}`).hidden = !isOffered;
    if (!isOffered && this.current === name) this.choose("recall");
  }

  choose(name) {
    this.current = name;
    document.body.dataset.pane = name;
    this.tabs.forEach((tab, index) => {
      const isSelected = NAMES[index] === name;
      tab.setAttribute("aria-selected", isSelected);
      tab.tabIndex = isSelected ? 0 : -1;
    });
    this.chosen(name);
  }

  // Show the messages if they are not visible.
  showMessages() {
    if (!byId("messages").checkVisibility()) this.choose("messages");
  }

  #press(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const visible = this.tabs.filter((tab) => tab.checkVisibility());
    const to = visible[(visible.indexOf(document.activeElement) + step + visible.length) % visible.length];
    to.focus();
    to.click();
    event.preventDefault();
  }
}
