// A list that creates only the visible rows. All rows have the same height. Arrow keys, Page Up, Page Down, Home and End move
// the selection; Enter opens a row.
const OVERSCAN = 8; // rows above and below the visible ones
const MAX_HEIGHT = 8_000_000; // pixels; browsers have rendering errors above about 30 million

export class VirtualList {
  #box;
  #sizer;
  #rows = new Map(); // by index
  #spare = [];
  #count = 0;
  #wanted = -1; // the index to scroll to when the list becomes visible
  #drawing = 0;

  // `make()` returns an empty row, `fill(row, index)` fills it, `need(from, to)` is called with the visible range.
  constructor(box, { height, make, fill, need = () => {}, open = () => {} }) {
    this.#box = box;
    Object.assign(this, { height, make, fill, need, open, active: -1 });
    this.#sizer = document.createElement("div");
    this.#sizer.className = "sizer";
    this.#sizer.setAttribute("role", "presentation");
    box.append(this.#sizer);
    box.classList.add("rows");
    box.setAttribute("role", "listbox");
    box.tabIndex = 0;
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    box.addEventListener("keydown", (event) => this.#press(event));
    box.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => (this.#wanted < 0 ? this.draw() : this.scrollTo(this.#wanted))).observe(box);
  }

  get count() {
    return this.#count;
  }

  resize(count) {
    this.#count = count;
    this.#wanted = -1;
    this.#sizer.style.height = `${this.#extent}px`;
    if (this.active >= count) this.active = -1;
    this.refresh();
  }

  // Fill all visible rows again.
  refresh() {
    for (const [index, row] of this.#rows) this.#drop(index, row);
    this.draw();
  }

  draw() {
    this.#drawing ||= requestAnimationFrame(() => {
      this.#drawing = 0;
      this.#draw();
    });
  }

  reveal(index) {
    const [top, view] = [index * this.height, this.#box.clientHeight];
    const seen = this.#top;
    if (top < seen || top + this.height > seen + view) this.scrollTo(index);
  }

  scrollTo(index) {
    this.#wanted = this.#box.clientHeight ? -1 : index;
    const middle = index * this.height - (this.#box.clientHeight - this.height) / 2;
    this.#box.scrollTop = Math.max(0, middle) / this.#ratio;
    this.draw();
  }

  activate(index) {
    if (index < 0 || index >= this.#count) return;
    const previous = this.#rows.get(this.active);
    this.active = index;
    this.reveal(index);
    if (previous) this.#mark(previous, false);
    const row = this.#rows.get(index);
    if (row) this.#mark(row, true);
    this.draw();
  }

  get #extent() {
    return Math.min(this.#count * this.height, MAX_HEIGHT);
  }

  // Pixels of the list per pixel of the scroll bar: 1, except for very long lists.
  get #ratio() {
    const view = this.#box.clientHeight;
    const moved = this.#extent - view;
    return moved > 0 ? (this.#count * this.height - view) / moved : 1;
  }

  get #top() {
    return this.#box.scrollTop * this.#ratio;
  }

  #draw() {
    const [top, view] = [this.#top, this.#box.clientHeight];
    if (!view) return;
    const first = Math.max(0, Math.floor(top / this.height) - OVERSCAN);
    const last = Math.min(this.#count, Math.ceil((top + view) / this.height) + OVERSCAN);
    for (const [index, row] of this.#rows) if (index < first || index >= last) this.#drop(index, row);
    for (let index = first; index < last; index += 1) this.#placeRow(index, top);
    if (last > first) this.need(first, last);
  }

  #placeRow(index, top) {
    let row = this.#rows.get(index);
    if (!row) {
      row = this.#spare.pop() ?? this.#newRow();
      this.#rows.set(index, row);
      row.hidden = false;
      row.id = `${this.#box.id}-${index}`;
      row.dataset.index = index;
      row.setAttribute("aria-posinset", index + 1);
      row.setAttribute("aria-setsize", this.#count);
      this.fill(row, index);
      this.#mark(row, index === this.active);
    }
    row.style.transform = `translateY(${index * this.height - top + this.#box.scrollTop}px)`;
  }

  #newRow() {
    const row = this.make();
    row.setAttribute("role", "option");
    row.style.height = `${this.height}px`;
    this.#sizer.append(row);
    return row;
  }

  #drop(index, row) {
    row.hidden = true;
    row.removeAttribute("id");
    this.#rows.delete(index);
    this.#spare.push(row);
  }

  #mark(row, isActive) {
    row.setAttribute("aria-selected", isActive);
    if (isActive) this.#box.setAttribute("aria-activedescendant", row.id);
  }

  #press(event) {
    const page = Math.max(1, Math.floor(this.#box.clientHeight / this.height) - 1);
    const to = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active < 0 ? this.#count - 1 : Math.max(0, this.active - 1),
      PageDown: Math.min(this.#count - 1, this.active + page),
      PageUp: Math.max(0, this.active - page),
      Home: 0,
      End: this.#count - 1,
    }[event.key];
    if (to !== undefined) this.activate(to);
    else if (event.key === "Enter" && this.active >= 0) this.open(this.active);
    else return;
    event.preventDefault();
  }

  #click(event) {
    const row = event.target.closest("[role=option]");
    if (!row) return;
    this.activate(Number(row.dataset.index));
    this.open(this.active);
  }
}
