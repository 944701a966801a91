// The HTML element that shows a word or a piece of a text, coloured by a weight; arcs and lines connect such elements

import type { HTMLAttributes } from "preact";
import { shade, textColour } from "./colours";

interface WordProps extends HTMLAttributes<HTMLSpanElement> {
  item: { text: string; title: string; joined: boolean; special: boolean };
  shown?: { strength: number; hue: number; masked?: boolean; written: string }; // how the word's weight is shown: as a colour, and as text ("" = no text)
}

export function Word({ item, shown, ...attributes }: WordProps) {
  const { strength, hue, masked, written } = shown ?? { strength: 0, hue: 0, written: "" };
  return (
    <span
      {...attributes}
      class={`word${item.joined ? " joined" : ""}${item.special ? " special" : ""}${masked ? " masked" : ""}`}
      role="option"
      title={item.title}
      style={strength > 0.004 ? { background: shade(strength, hue), color: textColour(strength) } : undefined}
    >
      <bdi>{item.text}</bdi>
      {written && <small aria-hidden="true">{written}</small>}
    </span>
  );
}
