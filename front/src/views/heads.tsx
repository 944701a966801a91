// All heads: layers × heads as coloured cells or small patterns; sorted by layer, weight, entropy or distance

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { bytesOf, dark, hueOf, shade, shades, strength } from "../colours";
import type { Layer } from "../data";
import { shownRow, summaries, summariseAll, summaryName, type Summary } from "../grid";
import type { Item } from "../items";
import { numberText, weightText } from "../numbers";
import { chooseHead, decoded, head, headName, keyItems, kind, layerNumber, restingQuery, trace, twoTexts } from "../state";
import { words } from "../words";
import { Choice, Numbers, Panel } from "./panel";

type Order = "layer" | "token" | "entropy" | "distance";

const patterns = signal(false);
const order = signal<Order>("layer");

interface Cell {
  layer: Layer;
  head: number;
  to: Item | null; // the word on which the query's weight is largest
  weight: number | null; // null until the layer is decoded
  summary?: Summary;
}

/** The query's largest weight on another word, in one head; without a query, the largest of any token. */
function strongestWord(layer: Layer, which: number, summary?: Summary): Pick<Cell, "to" | "weight"> {
  const from = restingQuery.value;
  if (!from) return { to: null, weight: summary?.strongest ?? null };
  const row = shownRow(from, layer, which, { temperature: 1, cut: new Set() });
  if (!row) return { to: null, weight: null };
  const anyWord = keyItems.value.some((item) => item.word);
  let to: Item | null = null;
  let weight = 0;
  for (const item of keyItems.value) {
    if ((anyWord && !item.word) || (!twoTexts.value && item.index === from.index)) continue;
    if (row.weights[item.index] > weight) [to, weight] = [item, row.weights[item.index]];
  }
  return { to, weight };
}

function cells(): Cell[] {
  return kind.value.layers.flatMap((layer) =>
    Array.from({ length: layer.heads }, (_, which) => {
      const summary = summaries.value.get(summaryName(layer, which));
      return { layer, head: which, summary, ...strongestWord(layer, which, summary) };
    }),
  );
}

function sorted(all: Cell[]): Cell[] {
  const by: Record<Order, (cell: Cell) => number> = {
    layer: () => 0,
    token: (cell) => -(cell.weight ?? -Infinity),
    entropy: (cell) => cell.summary?.entropy ?? Infinity,
    distance: (cell) => -(cell.summary?.distance ?? -Infinity),
  };
  return [...all].sort((a, b) => by[order.value](a) - by[order.value](b));
}

export function Heads() {
  const say = words();
  useEffect(() => summariseAll(kind.value.layers), [trace.value, kind.value]);
  void decoded.value;
  const all = cells();
  const inLayers = order.value === "layer";
  const most = Math.max(...kind.value.layers.map((layer) => layer.heads));
  const token = restingQuery.value?.label;
  return (
    <Panel
      view="heads"
      title={say.allHeads}
      caption={patterns.value ? say.mapPattern : token ? say.mapToken(token) : say.mapEvery}
      tools={
        <>
          <Choice
            label={say.mapShows}
            chosen={patterns.value ? "patterns" : "token"}
            options={[["token", say.oneToken], ["patterns", say.patterns]]}
            choose={(what) => (patterns.value = what === "patterns")}
          />
          <select aria-label={say.sortBy} value={order.value} onChange={(event) => (order.value = event.currentTarget.value as Order)}>
            <option value="layer">{say.sortLayer}</option>
            <option value="token">{say.sortToken}</option>
            <option value="entropy">{say.sortEntropy}</option>
            <option value="distance">{say.sortDistance}</option>
          </select>
        </>
      }
    >
      <div class="scroll map-scroll" tabIndex={0}>
        {inLayers ? (
          <div class="map" role="group" aria-label={say.allHeads} style={{ gridTemplateColumns: `max-content repeat(${most}, minmax(${patterns.value ? 22 : 9}px, ${patterns.value ? 44 : 26}px))` }}>
            <span />
            {Array.from({ length: most }, (_, h) => <span key={h}>{most <= 12 || h % 4 === 0 ? `H${h}` : ""}</span>)}
            {kind.value.layers.map((layer) => (
              <>
                <span class="layer" key={`layer ${layer.layer}`}>L{layer.layer}</span>
                {all.filter((cell) => cell.layer === layer).map((cell) => <HeadButton key={`${layer.layer} ${cell.head}`} cell={cell} />)}
                {Array.from({ length: most - layer.heads }, (_, i) => <span key={`none ${layer.layer} ${i}`} />)}
              </>
            ))}
          </div>
        ) : (
          <div class="map sorted" role="group" aria-label={say.allHeads}>
            {sorted(all).map((cell) => (
              <figure key={`${cell.layer.layer} ${cell.head}`}>
                <HeadButton cell={cell} />
                <figcaption>{headName(cell.layer.layer, cell.head)}<br />{sortedBy(cell)}</figcaption>
              </figure>
            ))}
          </div>
        )}
      </div>
      <p class="keys-hint">
        <kbd>←</kbd> <kbd>→</kbd> {say.headKeys} &ensp; <kbd>↑</kbd> <kbd>↓</kbd> {say.layerKeys}
      </p>
      <Numbers
        head={[say.head, token ? say.mapToken(token) : say.mapEvery, say.entropy, say.distance]}
        rows={() => sorted(all).map((cell) => [
          headName(cell.layer.layer, cell.head),
          `${cell.to ? `${cell.to.label} ` : ""}${cell.weight?.toFixed(5) ?? "…"}`,
          cell.summary ? cell.summary.entropy.toFixed(4) : "…",
          cell.summary ? cell.summary.distance.toFixed(4) : "…",
        ])}
      />
    </Panel>
  );
}

function sortedBy({ weight, summary }: Cell): string {
  if (order.value === "token") return weight === null ? "…" : weightText(weight);
  if (!summary) return "…";
  return numberText(order.value === "entropy" ? summary.entropy : summary.distance);
}

function HeadButton({ cell }: { cell: Cell }) {
  const { layer, head: which, to, weight, summary } = cell;
  const hue = hueOf(which, layer.heads);
  const name = headName(layer.layer, which);
  const from = restingQuery.value?.label;
  const number = weight === null ? "…" : weightText(weight, layer);
  const label = from && to ? `${name}: ${from} → ${to.label} ${number}` : `${name}: ${number}`;
  const isShown = layer.layer === layerNumber.value && which === head.value;
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      aria-current={isShown}
      tabIndex={isShown ? 0 : -1}
      data-head={name}
      style={{ background: patterns.value || weight === null ? undefined : shade(strength(weight, 1), hue) }}
      onClick={() => chooseHead(layer.layer, which)}
    >
      {patterns.value && summary && <Thumbnail summary={summary} hue={hue} />}
    </button>
  );
}

function Thumbnail({ summary, hue }: { summary: Summary; hue: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const bytes = bytesOf(shades(hue));
    const image = Uint32Array.from(summary.pooled, (shown) => bytes[Math.round(255 * shown)]);
    const pixels = new ImageData(new Uint8ClampedArray(image.buffer as ArrayBuffer), summary.columns, summary.rows);
    canvas.current!.getContext("2d")!.putImageData(pixels, 0, 0);
  }, [summary, hue, dark.value]);
  return <canvas ref={canvas} width={summary.columns} height={summary.rows} aria-hidden="true" />;
}
