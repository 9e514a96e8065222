// Builds what is shown. Whatever came from the broker becomes text, never markup.

/** An element with attributes, listeners ("onclick") and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

/**
 * What a cell or a fact shows: a text, or an object with `text` and at will `tone`, `mark` (a sign
 * that says the tone without colour), `href`, `time`, `title`, `act` (makes it a button), `off`.
 */
export function part(spec, row) {
  if (typeof spec !== "object") return document.createTextNode(spec ?? "");
  const { text, tone, mark, href, time, title, act, off, label } = spec;
  const inside = mark ? [make("span", { "aria-hidden": "true", class: "mark" }, mark), text] : [text];
  if (act) {
    const press = () => act(row());
    return make("button", { type: "button", title, class: tone, disabled: off, onclick: press, "aria-label": label }, inside);
  }
  if (href) return make("a", { href, class: tone, title }, inside);
  if (time) return make("time", { datetime: time, title: title ?? time, class: tone }, inside);
  return make("span", { class: tone, title }, inside);
}

export const parts = (spec, row) => (Array.isArray(spec) ? spec : [spec]).map((one) => part(one, row));

/** Names and what they say; those that say nothing are left out. */
export function facts(list) {
  const told = list.filter(([, spec]) => spec !== undefined && spec !== null && spec !== "");
  return make("dl", { class: "facts" }, told.flatMap(([name, spec]) => [make("dt", {}, name), make("dd", {}, parts(spec))]));
}

/** Puts facts where older ones stand, unless they say the same. */
export function showFacts(place, list) {
  const said = JSON.stringify(list);
  if (place.said === said) return;
  place.said = said;
  place.replaceChildren(facts(list));
}

export const section = (title, ...inside) => make("section", {}, make("h2", {}, title), inside);

/** Says it to everybody: to those who listen, too. */
export function say(text, bad = false) {
  const said = document.getElementById("said");
  said.classList.toggle("bad", bad);
  said.replaceChildren(text, make("button", { type: "button", class: "quiet", onclick: () => said.replaceChildren() }, "Dismiss"));
}

/** Asks yes or no. Escape is no. */
export function question({ title, text, yes }) {
  const dialog = document.getElementById("question");
  document.getElementById("question-title").textContent = title;
  document.getElementById("question-text").textContent = text;
  document.getElementById("question-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  document.getElementById("question-no").focus();
  return new Promise((answer) =>
    dialog.addEventListener("close", () => answer(dialog.returnValue === "yes"), { once: true }));
}
