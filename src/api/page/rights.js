// What the key in use may do, and how that is said.

import { make } from "./dom.js";

let roles = [];

export const know = (known) => (roles = known);
export const mayWrite = () => roles.includes("admin-write");

/** Why buttons are off; nothing where they are on. */
export const whyNot = () => (mayWrite() ? undefined : "This key may only read: changes need one with the role admin-write.");

export const note = () => (mayWrite() ? undefined : make("p", { class: "note", id: "read-only" }, whyNot()));
