// One decision and its explanation, host by host. A decision never changes.

import { get } from "./api.js";
import { facts, make, say } from "./dom.js";
import { Table } from "./table.js";
import { moment, outcome, plural, rule, span, whose, written } from "./words.js";

const ACTS = { placement: "acted on", observation: "observed only, nothing was changed", "dry-run": "dry run, nothing was changed" };
const TRUST = { doubtful: " (doubtful: the Guacamole login is somebody else)", ambiguous: " (ambiguous: several domains know this name)" };

const NAMED = 3; // hosts that were out and are named, at most

/** A decision with every host it compared; of those looked at last no second copy is asked for. */
const whole = new Map();
const KEPT = 20;

export async function wholeDecision(id) {
  if (!whole.has(id)) {
    const record = await get(["decisions", id]);
    if (whole.size >= KEPT) whole.delete(whole.keys().next().value);
    whole.set(id, record);
  }
  return whole.get(id);
}

/** What came out and by which rule, in a sentence; of a brief decision without what others had. */
export function sentence(record) {
  if (record.outcome === "unmatched") return "Passed through: the connection names no resource";
  if (record.outcome !== "placed") return `${record.outcome === "failed" ? "Failed" : "Refused"}: ${record.reason ?? "no reason was kept"}`;
  return `Placed on ${record.host}: ${record.reason}${comparison(record)}`;
}

function comparison({ host, reason, decision }) {
  if (reason !== "best score" || !decision) return "";
  const open = decision.candidates.filter(({ exclusion }) => !exclusion).sort((a, b) => b.score.total - a.score.total);
  const own = open.find((candidate) => candidate.host === host);
  const next = open.find((candidate) => candidate.host !== host);
  const out = decision.candidates.filter(({ exclusion }) => exclusion);
  const named = out.map(({ host, exclusion }) => `; ${host} was out: ${rule(exclusion)}`);
  const others = out.length <= NAMED ? named.join("") : `; ${plural(out.length, "host")} out`;
  if (!own) return others;
  if (!next) return `, the only host that was usable${others}`;
  const [best, second] = [own, next].map(({ score }) => score.total.toFixed(1));
  return best === second ? `, ${best} as ${next.host} has, too${others}` : `, ${best} before ${next.host} with ${second}${others}`;
}

export function explanation(record) {
  const { decision } = record;
  const asked = Object.entries(record.asked).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
  const told = facts([
    ["Outcome", { ...outcome(record.outcome), text: sentence(record) }],
    ["Made", [moment(record.time), `, ${ACTS[record.act] ?? record.act}`]],
    ["User", `${whose(record) || "not known: Guacamole asks for it"}${TRUST[decision?.trust] ?? ""}`],
    ["Asked for", asked.join(", ")],
    ["Resource", decision?.resource],
    ["Farm", decision?.farm],
    ["Decision", { text: record.id, href: `#/decision/${record.id}`, tone: "code" }],
    ["Tunnel", record.tunnel && { text: record.tunnel, tone: "code" }],
  ]);
  const candidates = decision?.candidates ?? [];
  if (!candidates.length) return make("div", { class: "why" }, told, make("p", { class: "faint" }, "No hosts were compared: it was decided before."));
  const table = hosts(record);
  table.update(candidates);
  const unknown = candidates.some(({ score }) => !score.cpu.known || !score.memory.known);
  return make("div", { class: "why" }, told, table.element,
    unknown && make("p", { class: "faint" }, "? not reported: the mean of the farm's known hosts stands in"));
}

function hosts(record) {
  const w = record.weights ?? { health: 10, active: 20, disconnected: 5, cpu: 2, memory: 1 };
  const figure = ({ percent, known }) => `${known ? "" : "?"}${percent.toFixed(0)}`;
  const age = (millis) => span(Math.max(0, Math.floor((record.at - millis) / 1000)));
  const since = (probe) => {
    const [name, said] = typeof probe === "string" ? [probe] : Object.entries(probe)[0];
    return { answering: `answers for ${age(said?.since)}`, failing: `fails for ${age(said?.since)}` }[name] ?? "not yet";
  };
  const ordered = ({ order }) => (order?.reason ? ` (${order.reason})` : "");
  return new Table({
    label: `Hosts of decision ${record.id}`,
    noun: "host",
    filter: (record.decision.candidates.length > 20),
    id: (c) => c.host,
    sort: { at: 3, down: true },
    columns: [
      { name: "Host", cell: (c) => ({ text: c.host, href: `#/host/${encodeURIComponent(c.host)}` }), value: (c) => c.host },
      { name: "Chosen", cell: (c) => (c.host === record.host ? { text: "chosen", tone: "good", mark: "✓" } : "") },
      { name: "New session", cell: (c) => (c.exclusion ? { text: `out: ${rule(c.exclusion)}${ordered(c)}`, tone: "bad", mark: "✕" } : { text: "in", tone: "good", mark: "✓" }), value: (c) => c.exclusion ?? "" },
      { name: "Score", figure: true, cell: (c) => c.score.total.toFixed(1), value: (c) => c.score.total },
      { name: `= health·${w.health} − active·${w.active} − disconnected·${w.disconnected} − CPU·${w.cpu} − memory·${w.memory}`,
        cell: ({ score: s }) => `${s.health}·${w.health} − ${s.active}·${w.active} − ${s.disconnected}·${w.disconnected} − ${figure(s.cpu)}·${w.cpu} − ${figure(s.memory)}·${w.memory}` },
      { name: "Users", figure: true, cell: (c) => c.occupancy.users, value: (c) => c.occupancy.users },
      { name: "Logons", figure: true, cell: (c) => `${c.occupancy.pending} of ${c.occupancy.pending_cap}`, value: (c) => c.occupancy.pending },
      { name: "Probe", cell: (c) => since(c.probe) },
      { name: "Report", cell: (c) => (c.report === null ? { text: "no agent", tone: "faint" } : { text: `${age(c.report)} old`, title: written(c.report) }) },
    ],
  });
}

/** Decisions, newest first, each opening to its explanation; what is open stays open. */
export class DecisionList {
  #known = new Map();
  element = make("div", { class: "decisions" });
  #empty;
  #who;

  constructor({ empty, who }) {
    this.#empty = make("p", { class: "faint" }, empty);
    this.#who = who;
  }

  update(records, openFirst = false) {
    const before = this.#known;
    this.#known = new Map(records.map((record) => [record.id, before.get(record.id) ?? this.#one(record)]));
    for (const [id, element] of before) if (!this.#known.has(id)) element.remove();
    let at = this.element.firstChild;
    for (const element of this.#known.values()) {
      if (element === at) at = at.nextSibling;
      else this.element.insertBefore(element, at);
    }
    if (records.length === 0) this.element.append(this.#empty);
    else this.#empty.remove();
    if (openFirst && records.length) this.#known.get(records[0].id).open = true;
  }

  #one(record) {
    const who = this.#who ? make("span", { class: "user" }, whose(record) || "no user") : undefined;
    const { tone, mark } = outcome(record.outcome);
    const time = moment(record.time);
    const summary = make("summary", {}, make("time", { datetime: time.time }, time.text), who,
      make("span", { class: `verdict ${tone ?? ""}` }, make("span", { class: "mark", "aria-hidden": "true" }, mark ?? "–"), sentence(record)),
      make("span", { class: "faint" }, record.resource ?? ""));
    const element = make("details", {}, summary);
    // A thousand hosts are asked for and built when somebody looks at them.
    element.addEventListener("toggle", async () => {
      if (!element.open || element.children.length > 1) return;
      const place = make("div", { "aria-live": "polite" }, make("p", { class: "faint" }, "Asking…"));
      element.append(place);
      try {
        place.replaceWith(explanation(await wholeDecision(record.id)));
      } catch (error) {
        place.remove();
        element.open = false;
        say(`The decision cannot be shown: ${error.message}`);
      }
    });
    return element;
  }
}

export function decision(again, id) {
  const place = make("div");
  return {
    title: "Decision",
    element: place,
    async refresh() {
      if (!place.hasChildNodes()) place.append(explanation(await wholeDecision(id)));
    },
  };
}
