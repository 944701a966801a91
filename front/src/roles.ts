// Roles of heads, as effects/roles.py defines them: the mean weight on certain keys, such as the token before the query

import type { Token } from "./data";

export const ROLES = ["previous", "next", "same", "first", "separator", "duplicate", "induction"] as const;
export type Role = (typeof ROLES)[number];

/** The name of a role among the words of the interface. */
export const roleName = <Name extends Role>(role: Name) => `role${role[0].toUpperCase()}${role.slice(1)}` as `role${Capitalize<Name>}`;

/** For each role, a function from a query to the positions of the keys that have the role for it. */
export function keysOfRoles(tokens: Token[]): Record<Role, (query: number) => number[]> {
  const places = new Map<string, number[]>();
  tokens.forEach(({ text }, at) => places.set(text, [...(places.get(text) ?? []), at]));
  const sameText = tokens.map(({ text }) => places.get(text)!);
  const special = tokens.flatMap((token, at) => (token.special ? [at] : []));
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

/** The mean over the queries that have a key of the role; NaN if none has. */
export class RoleMean {
  private sum = 0;
  private queries = 0;

  add(weights: Float64Array, keys: number[]): void {
    if (!keys.length) return;
    for (const key of keys) this.sum += weights[key];
    this.queries += 1;
  }

  get value(): number {
    return this.sum / this.queries;
  }
}
