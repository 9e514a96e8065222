// The broker's facts as people read them.

const two = (number) => String(number).padStart(2, "0");

/** A moment, by the reader's own clock: today's without its date. */
export function moment(rfc3339) {
  const at = new Date(rfc3339);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const text = day(at) === day(new Date()) ? clock : `${day(at)} ${clock}`;
  return { text, time: rfc3339 };
}

/** Milliseconds since the Unix epoch as RFC 3339 writes them. */
export const written = (millis) => new Date(millis).toISOString();

export function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) [count, at] = [count / 1000, at + 1];
  return `${at === 0 ? count : count.toFixed(1)} ${units[at]}`;
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

const MODES = {
  online: { text: "online", tone: "good", mark: "●" },
  drain: { text: "drain", tone: "warn", mark: "◐" },
  maintenance: { text: "maintenance", tone: "bad", mark: "■" },
};
export const mode = (name) => MODES[name] ?? { text: name };

/** Who gave an order, why, and until when. */
export function order(order) {
  if (!order) return "";
  const said = [order.reason ? `${order.by}: ${order.reason}` : order.by];
  if (order.from) said.push(", from ", moment(order.from));
  if (order.until) said.push(", until ", moment(order.until));
  return said;
}

/** Whether a host answers, as its probe has it. */
export function probe(host) {
  const since = host.probe_since ? [" since ", moment(host.probe_since)] : [];
  if (host.probe === "failing") return [{ text: "fails", tone: "bad", mark: "✕" }, ...since];
  if (host.probe === "answering") return ["answers", ...since];
  return [{ text: "not asked yet", tone: "faint" }];
}

export function report(host) {
  if (host.report_age_seconds === null) return { text: "no agent", tone: "faint" };
  if (host.reach === "silent") return { text: `silent for ${span(host.report_age_seconds)}`, tone: "bad", mark: "✕" };
  // An exact age would change with every look and say nothing.
  return host.report_age_seconds <= 15 ? "fresh" : `${span(host.report_age_seconds)} old`;
}

/** What a host has to say to a newcomer: in each farm, or once where all agree. */
export function newcomer(host) {
  const says = host.newcomer.map(({ farm, out }) => ({ farm, out }));
  if (says.length === 0) return { text: "in no farm", tone: "faint" };
  const one = (out) => (out ? { text: `out: ${out}`, tone: "bad", mark: "✕" } : { text: "usable", tone: "good", mark: "✓" });
  if (says.every(({ out }) => out === says[0].out)) return one(says[0].out);
  return says.flatMap(({ farm, out }, at) => [at ? "; " : "", `${farm} `, one(out)]);
}

export const usable = (host) => host.newcomer.some(({ out }) => !out);

export const score = (host) => [...new Set(host.newcomer.map(({ score }) => score.toFixed(1)))].join(" / ");

export function users(host) {
  if (!host.occupancy) return "";
  const { users, max_users: most } = host.occupancy;
  return most === null ? String(users) : `${users} of ${most}`;
}

const OUTCOMES = {
  placed: { tone: "good", mark: "✓" },
  refused: { tone: "bad", mark: "✕" },
  failed: { tone: "bad", mark: "✕" },
};
export const outcome = (name) => ({ text: name, ...OUTCOMES[name] });

const RULES = {
  drain: "in drain",
  maintenance: "in maintenance",
  "not-probed": "not probed yet",
  "agent-silent": "agent silent",
  "probe-fails": "probe fails",
  breaker: "breaker open",
  "no-listener": "RDP listener down",
  unhealthy: "health below minimum",
  "remote-app-missing": "RemoteApp missing",
  tried: "failed this connection",
  full: "full",
  "logons-pending": "logons under way",
};
export const rule = (name) => RULES[name] ?? name;

/** Domain and user of a decision, or what was asked with. */
export function whose(record) {
  if (record.user) return record.user; // of a brief one
  const user = record.decision?.user;
  if (user) return user.domain ? `${user.domain}\\${user.user}` : user.user;
  return record.asked.username ?? record.asked.login ?? "";
}
