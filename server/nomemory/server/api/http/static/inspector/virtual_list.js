// A list of any length, of which only the rows that are seen exist. Rows have one height. Arrow keys, Page, Home and End
// move through it; Enter opens a row.
const BEYOND = 8; // rows above and below what is seen
const TALLEST = 8_000_000; // pixels; browsers draw nothing right beyond some thirty million

export class VirtualList {
  #box;
  #sizer;
  #rows = new Map(); // by index
  #spare = [];
  #count = 0;
  #drawing = 0;

  // `make()` returns an empty row, `fill(row, index)` shows what is at an index; `need(from, to)` is told what is seen.
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
    new ResizeObserver(() => this.draw()).observe(box);
  }

  get count() {
    return this.#count;
  }

  resize(count) {
    this.#count = count;
    this.#sizer.style.height = `${this.#extent}px`;
    if (this.active >= count) this.active = -1;
    this.refresh();
  }

  // Show every row that is seen anew.
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
    const middle = index * this.height - (this.#box.clientHeight - this.height) / 2;
    this.#box.scrollTop = Math.max(0, middle) / this.#ratio;
    this.draw();
  }

  activate(index) {
    if (index < 0 || index >= this.#count) return;
    const former = this.#rows.get(this.active);
    this.active = index;
    this.reveal(index);
    if (former) this.#mark(former, false);
    const row = this.#rows.get(index);
    if (row) this.#mark(row, true);
    this.draw();
  }

  get #extent() {
    return Math.min(this.#count * this.height, TALLEST);
  }

  // How many pixels of the list a pixel of the scroll bar stands for: 1, but for very long lists.
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
    const first = Math.max(0, Math.floor(top / this.height) - BEYOND);
    const last = Math.min(this.#count, Math.ceil((top + view) / this.height) + BEYOND);
    for (const [index, row] of this.#rows) if (index < first || index >= last) this.#drop(index, row);
    for (let index = first; index < last; index += 1) this.#place(index, top);
    if (last > first) this.need(first, last);
  }

  #place(index, top) {
    let row = this.#rows.get(index);
    if (!row) {
      row = this.#spare.pop() ?? this.#made();
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

  #made() {
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
