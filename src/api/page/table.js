// A table that is looked at while it changes: a row is known by its id, and only cells that say
// something else than before are touched. Focus and selection stay where they are.

import { make, parts } from "./dom.js";
import { plural } from "./words.js";

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));

const kind = ({ figure, wide }) => (figure ? "figure" : wide && "wide");

export class Table {
  #columns;
  #id;
  #rows = new Map();
  #sort;
  #noun;
  #body = make("tbody");
  #heads;
  #count = make("span", { class: "count", role: "status" });
  #bar;
  #empty;
  #filter;

  /**
   * `columns`: `name`, `cell(row)` (see `part`) and at will `value(row)` to sort by, `figure` and `wide`.
   * `sort`: a column's place, `down` with the greatest first. Without `filter` there is no box for it.
   */
  constructor({ label, noun, columns, id, sort = { at: 0, down: false }, empty, filter = true }) {
    [this.#columns, this.#id, this.#sort, this.#noun] = [columns, id, sort, noun];
    this.#heads = columns.map((column, at) =>
      make("th", { scope: "col", class: kind(column) },
        column.value ? make("button", { type: "button", class: "sort", onclick: () => this.#sortBy(at) }, column.name) : column.name));
    this.#empty = make("p", { class: "faint", hidden: true }, empty);
    const table = make("table", { "aria-label": label }, make("thead", {}, make("tr", {}, this.#heads)), this.#body);
    // Wider than a small screen: it scrolls by itself, with the keyboard, too.
    const frame = make("div", { class: "frame", tabindex: "0", role: "region", "aria-label": `${label}, scrolls` }, table);
    this.#bar = make("p", { class: "bar" }, this.#count);
    if (filter) {
      this.#filter = make("input", { type: "search", class: "filter", placeholder: "any column", oninput: () => this.#show() });
      this.#bar.prepend(make("label", {}, "Filter ", this.#filter));
    }
    this.element = make("div", { class: "table" }, this.#bar, frame, this.#empty);
    this.#markSort();
  }

  update(rows) {
    const here = new Set();
    for (const row of rows) {
      const id = this.#id(row);
      here.add(id);
      const known = this.#rows.get(id) ?? this.#add(id);
      known.row = row;
      this.#columns.forEach((column, at) => this.#fill(known, at, column.cell(row)));
    }
    for (const [id, { line }] of this.#rows) {
      if (here.has(id)) continue;
      const focused = line.contains(document.activeElement);
      line.remove();
      this.#rows.delete(id);
      if (focused) this.element.querySelector(".frame").focus();
    }
    this.#arrange();
    this.#show();
  }

  #add(id) {
    const cells = this.#columns.map((column, at) =>
      at === 0 ? make("th", { scope: "row" }) : make("td", { class: kind(column) }));
    const known = { line: make("tr", {}, cells), cells, said: [] };
    this.#rows.set(id, known);
    return known;
  }

  #fill(known, at, spec) {
    const said = JSON.stringify(spec);
    if (known.said[at] === said) return;
    known.said[at] = said;
    const cell = known.cells[at];
    const focused = [...cell.children].indexOf(document.activeElement);
    cell.replaceChildren(...parts(spec, () => known.row));
    if (focused >= 0) cell.children[Math.min(focused, cell.children.length - 1)]?.focus();
  }

  #arrange() {
    const { value } = this.#columns[this.#sort.at];
    const way = this.#sort.down ? -1 : 1;
    const keyed = [...this.#rows].map(([id, known]) => ({ id, line: known.line, key: value(known.row) }));
    keyed.sort((a, b) => way * compare(a.key, b.key) || compare(a.id, b.id));
    const focused = document.activeElement;
    let at = this.#body.firstChild;
    for (const { line } of keyed) {
      if (line === at) at = at.nextSibling;
      else this.#body.insertBefore(line, at);
    }
    if (focused !== document.activeElement && this.#body.contains(focused)) focused.focus();
  }

  #show() {
    const wanted = (this.#filter?.value ?? "").trim().toLowerCase();
    let shown = 0;
    for (const { line } of this.#rows.values()) {
      const fits = !wanted || line.textContent.toLowerCase().includes(wanted);
      if (line.hidden === fits) line.hidden = !fits;
      shown += fits;
    }
    const all = this.#rows.size;
    const count = shown === all ? plural(all, this.#noun) : `${shown} of ${plural(all, this.#noun)}`;
    if (this.#count.textContent !== count) this.#count.textContent = count;
    this.#empty.hidden = all > 0;
    this.#bar.hidden = all === 0 && !this.#bar.contains(document.activeElement);
    this.element.querySelector(".frame").hidden = all === 0;
  }

  #sortBy(at) {
    this.#sort = { at, down: this.#sort.at === at ? !this.#sort.down : false };
    this.#markSort();
    this.#arrange();
  }

  #markSort() {
    this.#heads.forEach((head, at) => {
      if (at !== this.#sort.at) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.#sort.down ? "descending" : "ascending");
    });
  }
}
