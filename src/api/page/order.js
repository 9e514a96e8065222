// The form that gives a host, or all hosts of a farm, a mode.

import { Refused, ask, path } from "./api.js";
import { make, question, say } from "./dom.js";
import { mayWrite, note } from "./rights.js";
import { moment, plural } from "./words.js";

const MODES = [
  ["online", "Online: everybody"],
  ["drain", "Drain: no new users, those with a session may return"],
  ["maintenance", "Maintenance: nobody; open tunnels stay"],
];

const FIELDS = [
  ["reason", "Reason", "for administrators", { type: "text", maxlength: "500" }],
  ["message", "Message", "for users", { type: "text", maxlength: "500" }],
  ["from", "From", "your clock; empty: now", { type: "datetime-local" }],
  ["until", "Until", "empty: the next order", { type: "datetime-local" }],
];

/** Each of use only where the one before it is chosen; the first goes with drain. */
const RESTART = [
  ["restart_when_drained", "Restart the host once nobody is on it; its agent does"],
  ["online_after_restart", "Put it online after that restart"],
];

/** `target`: `hosts` or `farms`; `given` is called when an order was taken. */
export function orderForm(target, id, given) {
  const modes = make("fieldset", { class: "modes" }, make("legend", {}, "Mode"),
    MODES.map(([name, text]) => make("label", { class: "check" },
      make("input", { type: "radio", name: "mode", value: name, required: true }), ` ${text}`)));
  const fields = FIELDS.map(([name, label, hint, kind]) =>
    make("label", { class: "field" }, make("span", {}, label, " ", make("small", {}, hint)), make("input", { name, autocomplete: "off", ...kind })));
  const restart = RESTART.map(([name, text]) => ({
    box: make("input", { type: "checkbox", name, disabled: true }),
    text,
  }));
  const boxes = make("fieldset", { class: "modes" }, make("legend", {}, "With drain"),
    restart.map(({ box, text }) => make("label", { class: "check" }, box, ` ${text}`)));
  const offer = () => {
    let usable = modes.querySelector(":checked")?.value === "drain";
    for (const { box } of restart) {
      box.disabled = !usable;
      if (!usable) box.checked = false;
      usable &&= box.checked;
    }
  };
  const fault = make("p", { class: "fault", role: "alert" });
  const whole = make("fieldset", { class: "order", disabled: !mayWrite(), "aria-describedby": mayWrite() ? undefined : "read-only" },
    make("legend", { class: "unseen" }, `Order for ${id}`), modes, make("div", { class: "fields" }, fields), boxes,
    make("button", { type: "submit", class: "chief" }, "Give the order"));
  const form = make("form", { class: "card" }, note(), whole, fault);
  form.addEventListener("change", offer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fault.textContent = "";
    const entered = new FormData(form); // nothing is read of what is disabled
    whole.disabled = true;
    try {
      const done = await give(target, id, wish(entered));
      if (!done) return;
      form.reset();
      offer();
      say(told(done));
      given();
    } catch (error) {
      fault.textContent = `Not done: ${error.message}`;
    } finally {
      whole.disabled = !mayWrite();
      form.querySelector("button").focus();
    }
  });
  return form;
}

function wish(entered) {
  const text = (name) => entered.get(name).trim() || undefined;
  const time = (name) => text(name) && new Date(text(name)).toISOString();
  const given = RESTART.filter(([name]) => entered.has(name)).map(([name]) => [name, true]);
  return { ...Object.fromEntries(given), mode: entered.get("mode"), reason: text("reason"), message: text("message"), from: time("from"), until: time("until") };
}

/** What came of it; nothing where somebody thought better of it. */
async function give(target, id, wish) {
  const where = path([target, id]);
  try {
    return await ask("PATCH", where, wish);
  } catch (error) {
    // Other conflicts are not to be had by force.
    if (!(error instanceof Refused && error.code === "force_required")) throw error;
    const all = target === "farms" ? `every host of ${id}` : id;
    const sure = await question({ title: `Set ${all} to ${wish.mode} all the same?`, text: `The broker says: ${error.message}.`, yes: "Force the order" });
    return sure ? ask("PATCH", where, { ...wish, force: true }) : undefined;
  }
}

function told({ order, hosts, farms_without_host: emptied }) {
  const names = hosts.length === 1 ? hosts[0].id : plural(hosts.length, "host");
  const from = order.from ? ` from ${moment(order.from).text}` : "";
  const until = order.until ? ` until ${moment(order.until).text}` : "";
  const without = emptied.length ? ` Without a usable host: farm ${emptied.map(({ id }) => id).join(", ")}.` : "";
  const deaf = hosts.filter((host) => !host.has_agent).map(({ id }) => id);
  const then = !order.restart_when_drained ? "" : ` Then restarted${order.online_after_restart ? " and online" : ""}.`;
  const nobody = then && deaf.length ? ` No agent was ever heard that would do so: ${deaf.join(", ")}.` : "";
  return `Done: ${names} ${order.mode}${from}${until}.${then}${nobody}${without}`;
}
