// Numbers written as text

import { layer, trace } from "../state/state";
import { words } from "../words";

/** A weight to four decimals. "≈" before it: to keep the page small, the weight was rounded more coarsely (`small` of Trace). */
export function weightText(weight: number, of = layer.value): string {
  const { below, step } = trace.value.small;
  const isCoarse = !of.query && step > 1 && weight * trace.value.units <= below;
  if (isCoarse) return weight === 0 ? "≈0" : `≈${weight.toFixed(4)}`;
  return weight.toFixed(4);
}

/** A number to four decimals or, if it is closer to 0 than 0.0005, with a power of ten: "1.23e−5". */
export function numberText(number: number): string {
  if (number === -Infinity) return "−∞";
  if (number !== 0 && Math.abs(number) < 0.0005) return number.toExponential(2).replace(/-/g, "−");
  return number.toFixed(4).replace(/-/g, "−");
}

/** A number to six significant digits, which float32 can hold. */
export function preciseText(number: number): string {
  const isSmall = number !== 0 && Math.abs(number) < 0.0005;
  return (isSmall ? number.toExponential(5) : number.toPrecision(6)).replace(/-/g, "−");
}

/** The weight at an index as text; "masked" if it is masked; "" if `row` is null. With four decimals, "≈" marks a rounded weight (`weightText`). */
export function weightOrMasked(row: { weights: ArrayLike<number>; masked: Uint8Array } | null, index: number, decimals = 4): string {
  if (!row) return "";
  if (row.masked[index]) return words().masked;
  return decimals === 4 ? weightText(row.weights[index]) : row.weights[index].toFixed(decimals);
}

export const MOST_TERMS = 8; // a sum of more products is shortened (see `sumText`)

/** A sum of `count` terms as text. If there are more than `maxTerms`, the text has the first three terms and `others(n)`, which says that n more follow. */
export function sumText(count: number, term: (index: number) => string, maxTerms = MOST_TERMS, others = words().moreProducts): string {
  const isShortened = count > maxTerms;
  const terms = Array.from({ length: isShortened ? 3 : count }, (_, index) => term(index));
  if (isShortened) terms.push(others(count - 3));
  return terms.join(" + ");
}
