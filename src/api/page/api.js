// Asks the broker. The key lives in this tab alone: in no cookie, in no address.

const STORED = "sessionguard.key";
const PATIENCE = 10_000; // milliseconds

let key = sessionStorage.getItem(STORED);

/** The broker answered, and not with what was asked for. */
export class Refused extends Error {
  constructor(status, text, code) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

/** Nothing came back. */
export class Unreachable extends Error {}

export const hasKey = () => key !== null;

export function useKey(text) {
  key = text;
  sessionStorage.setItem(STORED, text);
}

export function forgetKey() {
  key = null;
  sessionStorage.removeItem(STORED);
}

/** A path below /api/v1 of parts that may hold anything, and a query of what is given. */
export function path(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const asked = new URLSearchParams(given).toString();
  return parts.map(encodeURIComponent).join("/") + (asked && `?${asked}`);
}

/** The answer, read; throws Refused or Unreachable. */
export async function ask(method, where, body) {
  let head;
  try {
    head = new Headers({ Authorization: `Bearer ${key}` });
  } catch {
    throw new Refused(401, "a key holds letters and digits only");
  }
  if (body !== undefined) head.set("Content-Type", "application/json");
  let status, answer;
  try {
    const response = await fetch(`/api/v1/${where}`, {
      method,
      headers: head,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE),
    });
    status = response.status;
    answer = await response.json();
  } catch (error) {
    // A proxy's own page is no answer of the broker.
    throw new Unreachable(status ? `something else answers in its place (${status})` : error.message);
  }
  if (status >= 400) throw new Refused(status, answer.error ?? `it answered ${status}`, answer.code);
  return answer;
}

export const get = (...where) => ask("GET", path(...where));
