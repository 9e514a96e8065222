// Farms, how full they are, and what somebody should look at.

import { get } from "./api.js";
import { make, parts, section, showFacts } from "./dom.js";
import { Table } from "./table.js";
import { moment, plural, span, usable, written } from "./words.js";

const SOON = 14 * 86_400_000; // milliseconds before a certificate's end

const NAMED = 8; // hosts that one line names, at most

/** What is wrong, worst first: `alarm` wants somebody, `notice` may be meant. */
function alarms(status, farms) {
  const found = [];
  const alarm = (...said) => found.push({ kind: "alarm", said });
  const notice = (...said) => found.push({ kind: "notice", said });
  for (const farm of farms) {
    const link = { text: farm.id, href: `#/farm/${encodeURIComponent(farm.id)}` };
    if (!farm.enabled) notice("Farm ", link, " is disabled: it places nobody.");
    else if (farm.hosts_open === 0) alarm("Farm ", link, " has no usable host: new users are refused.");
  }
  const failing = status.hosts.filter((host) => host.probe === "failing");
  const blocked = failing.filter((host) => host.tunnels > 0);
  // What is in maintenance may be switched off.
  const dead = failing.filter((host) => host.tunnels === 0 && host.mode !== "maintenance");
  const silent = status.hosts.filter((host) => host.reach === "silent" && host.mode !== "maintenance");
  const since = (host) => [" since ", moment(host.probe_since)];
  if (dead.length) alarm(`${plural(dead.length, "host does", "hosts do")} not answer: `, ...named(dead, since), ".");
  if (blocked.length) alarm("The probe fails while tunnels are open, so its way may be blocked: ", ...named(blocked, since), ".");
  if (silent.length) alarm(`${plural(silent.length, "agent is", "agents are")} silent: `, ...named(silent, (host) => [` for ${span(host.report_age_seconds)}`]), ".");
  const attempt = status.reload?.attempt;
  if (attempt?.findings.length) alarm("The changed configuration was not taken over at ", moment(written(attempt.at)), `: ${attempt.findings.join("; ")}`);
  if (status.reload?.restart.length) notice(`Waits for a restart: ${status.reload.restart.join(", ")}.`);
  for (const { key, file, not_after: end, last_error: error } of status.certificates) {
    if (error) alarm(`The certificate in ${file} (${key}) is not in force: ${error}`);
    if (Date.parse(end) - Date.parse(status.time) < SOON) alarm(`The certificate in ${file} (${key}) ends `, moment(end), ".");
  }
  if (status.decisions_lost) alarm(`${plural(status.decisions_lost, "decision")} not stored.`);
  if (status.audit_lines_lost) alarm(`${plural(status.audit_lines_lost, "line")} missing in the audit trail.`);
  if (status.mode === "observe") notice("The broker only observes: connections go where they went before.");
  const never = status.resources_never_matched;
  if (never.length) notice(`Resources that no connection named since the start: ${never.join(", ")}.`);
  const names = status.hostnames_never_matched;
  if (names.length) notice(`Host names that led to no resource: ${names.slice(0, 10).map(({ hostname, times }) => `${hostname} (${times})`).join(", ")}${names.length > 10 ? "…" : ""}`);
  return found.sort((a, b) => a.kind.localeCompare(b.kind));
}

/** Links to the first of these hosts, and how many more there are. */
function named(hosts, more) {
  const shown = hosts.slice(0, NAMED).flatMap((host, at) =>
    [at ? ", " : "", { text: host.id, href: `#/host/${encodeURIComponent(host.id)}` }, ...more(host)]);
  return hosts.length > NAMED ? [...shown, ` and ${hosts.length - NAMED} more`] : shown;
}

const figure = (number, name, tone) => make("p", { class: `figure ${tone ?? ""}` }, make("strong", {}, String(number)), ` ${name}`);

export function overview() {
  const list = make("ul", { class: "alarms" });
  const figures = make("div", { class: "figures" });
  const configuration = make("div");
  const table = new Table({
    label: "Farms",
    noun: "farm",
    id: (farm) => farm.id,
    empty: "No farm is configured.",
    filter: false,
    columns: [
      { name: "Farm", cell: (f) => ({ text: f.id, href: `#/farm/${encodeURIComponent(f.id)}`, title: f.name }), value: (f) => f.id },
      { name: "State", cell: state, value: (f) => f.hosts_open / (f.hosts.length || 1) },
      { name: "Usable", figure: true, cell: (f) => String(f.hosts_open), value: (f) => f.hosts_open },
      { name: "Out", figure: true, cell: (f) => String(f.hosts.length - f.hosts_open), value: (f) => f.hosts.length - f.hosts_open },
      { name: "Users", figure: true, cell: (f) => String(f.users), value: (f) => f.users },
      { name: "Active", figure: true, cell: (f) => String(f.active), value: (f) => f.active },
      { name: "Disconnected", figure: true, cell: (f) => String(f.disconnected), value: (f) => f.disconnected },
      { name: "Tunnels", figure: true, cell: (f) => String(f.tunnels), value: (f) => f.tunnels },
      { name: "Resources", wide: true, cell: (f) => f.resources.join(", "), value: (f) => f.resources.join(", ") },
    ],
  });
  let said;
  return {
    title: "Overview",
    element: make("div", {}, figures, section("Alarms", list), section("Farms", table.element), section("Configuration", configuration)),
    async refresh() {
      const [status, { farms }] = await Promise.all([get(["status"]), get(["farms"])]);
      const found = alarms(status, farms);
      const open = status.hosts.filter(usable).length;
      const out = status.hosts.length - open;
      const sum = (of) => status.hosts.reduce((all, host) => all + of(host), 0);
      const numbers = [open, out, sum((host) => host.occupancy?.users ?? 0), sum((host) => host.active), sum((host) => host.disconnected), status.tunnels];
      if (said !== (said = JSON.stringify([found, numbers]))) {
        list.replaceChildren(...(found.length ? found.map(line) : [make("li", { class: "good" }, make("span", { class: "mark", "aria-hidden": "true" }, "✓"), "Nothing to look at.")]));
        figures.replaceChildren(figure(numbers[0], "hosts usable", "good"), figure(out, "hosts out", out && "warn"), figure(numbers[2], "users"),
          figure(numbers[3], "active sessions"), figure(numbers[4], "disconnected sessions"), figure(numbers[5], "open tunnels"));
      }
      table.update(farms);
      showFacts(configuration, loaded(status));
      return status;
    },
  };
}

function state(farm) {
  if (!farm.enabled) return { text: "disabled", tone: "warn", mark: "■" };
  if (farm.hosts_open === 0) return { text: "no usable host", tone: "bad", mark: "✕" };
  if (farm.hosts_open < farm.hosts.length) return { text: "hosts out", tone: "warn", mark: "◐" };
  return { text: "all usable", tone: "good", mark: "✓" };
}

const line = ({ kind, said }) => make("li", { class: kind === "alarm" ? "bad" : "warn" },
  make("strong", {}, kind === "alarm" ? "✕ Alarm " : "◐ Notice "), make("span", { class: "plain" }, said.flatMap((one) => parts(one))));

function loaded({ configuration, reload, version, mode }) {
  const attempt = reload?.attempt;
  const refused = attempt?.findings.length > 0;
  return [
    ["In force", [`generation ${configuration}`, ...(reload ? [" since ", moment(written(reload.applied))] : [])]],
    ["Last change", attempt ? [refused ? { text: "not taken over", tone: "bad", mark: "✕" } : { text: "taken over", tone: "good", mark: "✓" }, " at ", moment(written(attempt.at))] : "none since the start"],
    ["Broker", `${version}, mode ${mode}`],
  ];
}
