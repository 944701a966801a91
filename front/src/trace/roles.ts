// Roles of heads, defined as in Python's effects/roles.py. A role names certain keys of each query: "previous" names the token before
// the query. The larger a head's mean weight on these keys, the more it has the role.

import type { Token } from "./data";

export const ROLES = ["previous", "next", "same", "first", "separator", "duplicate", "induction"] as const;
export type Role = (typeof ROLES)[number];

/** The name of a role's text in words.ts: "previous" → "rolePrevious". */
export const roleName = <Name extends Role>(role: Name) => `role${role[0].toUpperCase()}${role.slice(1)}` as `role${Capitalize<Name>}`;

/** For each role, a function that returns the positions of the role's keys for a query. */
export function keysOfRoles(tokens: Token[]): Record<Role, (query: number) => number[]> {
  const positionsOfText = new Map<string, number[]>();
  tokens.forEach(({ text }, position) => positionsOfText.set(text, [...(positionsOfText.get(text) ?? []), position]));
  const sameText = tokens.map(({ text }) => positionsOfText.get(text)!);
  const special = [...tokens.keys()].filter((position) => tokens[position].special);
  return {
    previous: (query) => (query > 0 ? [query - 1] : []),
    next: (query) => (query + 1 < tokens.length ? [query + 1] : []),
    same: (query) => [query],
    first: () => [0],
    separator: () => special,
    duplicate: (query) => sameText[query].filter((key) => key !== query),
    induction: (query) => sameText[query].filter((key) => key < query - 1).map((key) => key + 1),
  };
}
