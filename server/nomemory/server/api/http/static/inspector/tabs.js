// The panes by their tabs. Where there is room, the talk stands beside whichever is chosen.
import { byId, element } from "./element.js";

const NAMES = ["talk", "recall", "compare", "state"];

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

  choose(name) {
    this.current = name;
    document.body.dataset.pane = name;
    this.tabs.forEach((tab, place) => {
      const isIt = NAMES[place] === name;
      tab.setAttribute("aria-selected", isIt);
      tab.tabIndex = isIt ? 0 : -1;
    });
    this.chosen(name);
  }

  // Show the talk where it is not seen already.
  showTalk() {
    if (!byId("talk").checkVisibility()) this.choose("talk");
  }

  #press(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const seen = this.tabs.filter((tab) => tab.checkVisibility());
    const to = seen[(seen.indexOf(document.activeElement) + step + seen.length) % seen.length];
    to.focus();
    to.click();
    event.preventDefault();
  }
}
