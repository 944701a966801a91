// Numbers as text

import { layer, trace } from "./state";

/** A weight to four decimals; ≈ marks one that was rounded to a coarser step, so that the page stays small. */
export function weightText(weight: number, of = layer.value): string {
  const { below, step } = trace.value.small;
  const rounded = !of.query && step > 1 && weight * trace.value.units <= below;
  return rounded && weight === 0 ? "≈0" : `${rounded ? "≈" : ""}${weight.toFixed(4)}`;
}

/** A number of a stage: up to four decimals, or in powers of ten where these would not show it. */
export function numberText(number: number): string {
  if (number === -Infinity) return "−∞";
  if (number !== 0 && Math.abs(number) < 0.0005) return number.toExponential(2).replace(/-/g, "−");
  return number.toFixed(4).replace(/-/g, "−");
}

/** A number to six digits, as many as float32 has. */
export function preciseText(number: number): string {
  const small = number !== 0 && Math.abs(number) < 0.0005;
  return (small ? number.toExponential(5) : number.toPrecision(6)).replace(/-/g, "−");
}
