// The view of all heads: each is a coloured cell or a small picture of its weights; the reader chooses how they are sorted

import type { Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { dark, hueOf, shade, shades } from "../../parts/colours";
import { numberText, weightText } from "../../parts/numbers";
import { Choice, Numbers, Panel } from "../../parts/panel";
import { largestEffect } from "../../state/indirect-effects";
import { linkedChoice } from "../../state/linked-signals";
import { largestMoved, differingHeads } from "../../state/differing-heads";
import { colourScale, head, headName, kind, layerNumber, queryLabels, restingQuery, runAgainOn, trace, twoTexts } from "../../state/state";
import { roleName, ROLES, type Role } from "../../trace/roles";
import { words } from "../../words";
import { cellOf, chooseCell, colourOf, DIFFERENCE_HUE, OPPOSES, RESTORES, type Cell, type CellShows } from "./head-cell";
import { HeadsCanvas, thumbnail } from "./heads-canvas";
import { headsDone, summariseAll, type Summary } from "./summaries";

type Order = "layer" | "effect" | "token" | "entropy" | "distance" | Role;

const MANY = 600; // more heads than this are drawn on a canvas; the table of numbers lists at most this many heads
const FIRST = 120; // if there are more than MANY heads, a sorted list shows only this many

// The largest width of a cell is HEIGHT divided by the number of layers, but at least LEAST_LARGE and at most LARGEST; all in pixels.
const [LEAST_LARGE, LARGEST, HEIGHT] = [26, 44, 320];

const largestCell = () => Math.max(LEAST_LARGE, Math.min(LARGEST, HEIGHT / kind.value.layers.length));

const shownOfOne = linkedChoice<CellShows>("heads", "token", "patterns");
const shownOfTwo = linkedChoice<CellShows>("heads-of-two", "difference", "token", "patterns");
const shownOfEffects = linkedChoice<CellShows>("heads-of-effects", "effect", "difference", "token", "patterns");
/** What the cells show. Each kind of page begins with its own choice. */
function cellShows(): Signal<CellShows> {
  if (trace.value.effects) return shownOfEffects;
  return differingHeads.value ? shownOfTwo : shownOfOne;
}
const order = linkedChoice<Order>("sorted-by", "layer", "effect", "token", "entropy", "distance", ...ROLES);

const cells = (): Cell[] => kind.value.layers.flatMap((layer) => Array.from({ length: layer.heads }, (_, headIndex) => cellOf(layer, headIndex)));

/** The number by which a head is sorted; undefined if it is not computed yet, or if the text has no key of the role (see roles.ts). */
function measureOf({ weight, summary, effect }: Cell): number | undefined {
  const by = order.value;
  if (by === "layer") return 0;
  if (by === "effect") return effect;
  if (by === "token") return weight ?? undefined;
  const measure = by === "entropy" || by === "distance" ? summary?.[by] : summary?.roles?.[by];
  return Number.isNaN(measure) ? undefined : measure;
}

/** The cells in the chosen order: the lowest entropy comes first; in an order by another number, the highest. Cells without a number come last. */
function sorted(unsorted: Cell[]): Cell[] {
  const sign = order.value === "entropy" ? 1 : -1;
  const measures = new Map(unsorted.map((cell) => [cell, measureOf(cell)]));
  return [...unsorted].sort((a, b) => {
    const [one, other] = [measures.get(a), measures.get(b)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    return sign * (one - other);
  });
}

export function Heads() {
  const say = words();
  useEffect(() => summariseAll(kind.value.layers), [trace.value, kind.value]);
  runAgainOn(headsDone);
  const count = kind.value.layers.reduce((total, layer) => total + layer.heads, 0);
  const hasMany = count > MANY;
  const inLayers = order.value === "layer";
  const shows = cellShows().value;
  const maxHeads = Math.max(...kind.value.layers.map((layer) => layer.heads));
  const [leastWidth, largestWidth] = shows === "patterns" ? [22, LARGEST] : [9, largestCell()];
  const all = hasMany && inLayers ? [] : cells(); // the canvas makes its own cells
  const listed = sorted(all).slice(0, hasMany ? FIRST : undefined);
  return (
    <Panel
      view="heads"
      title={say.allHeads}
      both={shows === "difference" || shows === "effect"}
      wide={hasMany}
      caption={captionOf(shows)}
      tools={
        <>
          <Choice label={say.headsCell} of={cellShows()} options={cellOptions()} />
          <select aria-label={say.sortBy} value={order.value} onChange={(event) => (order.value = event.currentTarget.value as Order)}>
            <option value="layer">{say.sortLayer}</option>
            {trace.value.effects && <option value="effect">{say.effectOfHead}</option>}
            <option value="token">{say.sortToken}</option>
            <option value="entropy">{say.sortEntropy}</option>
            <option value="distance">{say.sortDistance}</option>
            {!twoTexts.value && (
              <optgroup label={say.sortRole}>
                {ROLES.map((role) => <option key={role} value={role}>{say[roleName(role)]}</option>)}
              </optgroup>
            )}
          </select>
        </>
      }
    >
      {hasMany && inLayers ? (
        <HeadsCanvas count={count} shows={shows} maxHeads={maxHeads} labelOf={labelOf} />
      ) : (
        <div class="scroll map-scroll" tabIndex={0}>
          {inLayers ? (
            <div class="map" role="group" aria-label={say.allHeads} style={{ gridTemplateColumns: `max-content repeat(${maxHeads}, minmax(${leastWidth}px, ${largestWidth}px))` }}>
              <span />
              {Array.from({ length: maxHeads }, (_, h) => <span key={h}>{maxHeads <= 12 || h % 4 === 0 ? `H${h}` : ""}</span>)}
              {kind.value.layers.map((layer) => (
                <>
                  <span class="layer" key={`layer ${layer.layer}`}>L{layer.layer}</span>
                  {all.filter((cell) => cell.layer === layer).map((cell) => <HeadButton key={`${layer.layer} ${cell.head}`} cell={cell} />)}
                  {Array.from({ length: maxHeads - layer.heads }, (_, i) => <span key={`none ${layer.layer} ${i}`} />)}
                </>
              ))}
            </div>
          ) : (
            <div class="map sorted" role="group" aria-label={say.allHeads}>
              {listed.map((cell) => (
                <figure key={`${cell.layer.layer} ${cell.head}`}>
                  <HeadButton cell={cell} />
                  <figcaption>{headName(cell.layer.layer, cell.head)}<br />{measureLabel(cell)}</figcaption>
                </figure>
              ))}
            </div>
          )}
        </div>
      )}
      {listed.length < all.length && !inLayers && <p class="caption">{say.firstHeads(listed.length, all.length)}</p>}
      <Legend />
      <p class="keys-hint">
        <kbd>←</kbd> <kbd>→</kbd> {say.head.toLowerCase()} &ensp; <kbd>↑</kbd> <kbd>↓</kbd> {say.layer.toLowerCase()}
      </p>
      <Numbers head={columnNames()} rows={() => sorted(cells()).slice(0, MANY).map(tableRow)} />
    </Panel>
  );
}

function captionOf(shows: CellShows): string {
  const say = words();
  if (shows === "effect") return say.headsEffect;
  if (shows === "difference") return say.headsDifference;
  return shows === "patterns" ? say.headsPattern : weightCaption();
}

/** What the weights of the cells are: the largest weights of the query, or of any word. */
function weightCaption(): string {
  const query = restingQuery.value;
  return query ? words().headsToken(query.label) : words().headsEvery;
}

function cellOptions(): [CellShows, string][] {
  const say = words();
  const options: [CellShows, string][] = [["token", say.oneToken], ["patterns", say.patterns]];
  if (differingHeads.value) options.unshift(["difference", say.differences]);
  if (trace.value.effects) options.unshift(["effect", say.effectOfHead]);
  return options;
}

function columnNames(): string[] {
  const say = words();
  const names = [say.head];
  if (trace.value.effects) names.push(say.effectOfHead);
  if (differingHeads.value) names.push(say.effectMoved);
  names.push(weightCaption(), say.entropy, say.distance);
  if (!twoTexts.value) names.push(...ROLES.map((role) => say[roleName(role)]));
  return names;
}

/** The numbers of a head, one for each of `columnNames`. */
function tableRow({ layer, head: headIndex, to, weight, summary, differing, effect }: Cell): string[] {
  const row = [headName(layer.layer, headIndex)];
  if (trace.value.effects) row.push(measureText(effect));
  if (differingHeads.value) row.push((differing?.moved ?? 0).toFixed(5));
  row.push(`${to ? `${to.label} ` : ""}${weight?.toFixed(5) ?? "…"}`);
  row.push(summary?.entropy.toFixed(4) ?? "…", summary?.distance.toFixed(4) ?? "…");
  if (!twoTexts.value) row.push(...ROLES.map((role) => measureText(summary?.roles?.[role])));
  return row;
}

function measureLabel(cell: Cell): string {
  if (order.value === "effect") return measureText(cell.effect);
  if (order.value === "token") return cell.weight === null ? "…" : weightText(cell.weight);
  return cell.summary ? measureText(measureOf(cell)) : "…";
}

const measureText = (measure: number | undefined) => (measure === undefined || Number.isNaN(measure) ? "–" : numberText(measure));

/** The text of a head: its name, the query, the word with the largest weight, and the weight: "L3H1: it → snake 0.6741". */
function labelOf({ layer, head: headIndex, to, weight, differing, effect }: Cell): string {
  const name = headName(layer.layer, headIndex);
  const shows = cellShows().value;
  if (shows === "effect") return `${name}: ${measureText(effect)}`;
  if (shows === "difference") return differing ? `${name}: ${queryLabels.value[differing.query]} ${weightText(differing.moved)}` : `${name}: 0`;
  const query = restingQuery.value?.label;
  const number = weight === null ? "…" : weightText(weight, layer);
  return query && to ? `${name}: ${query} → ${to.label} ${number}` : `${name}: ${number}`;
}

function Legend() {
  const say = words();
  const shows = cellShows().value;
  if (shows === "effect") {
    const colours = { "--less": shade(1, OPPOSES), "--more": shade(1, RESTORES) };
    return <p class="legend">{numberText(-largestEffect())} <span class="ramp signed" aria-hidden="true" style={colours} /> {numberText(largestEffect())}</p>;
  }
  if (shows === "difference") return <p class="legend">0 <span class="ramp moved-ramp" aria-hidden="true" style={{ "--most": shade(1, DIFFERENCE_HUE) }} /> {weightText(largestMoved())}</p>;
  const low = shows === "token" && colourScale.value === "log" ? "0.0001" : "0";
  return (
    <p class="legend">
      {low} <span class="ramp" aria-hidden="true" /> {shows === "patterns" ? say.largestOfEach : "1"} <span>{say.ownColours}</span>
    </p>
  );
}

function HeadButton({ cell }: { cell: Cell }) {
  const { layer, head: headIndex, summary } = cell;
  const shows = cellShows().value;
  const colour = shows === "patterns" ? null : colourOf(cell, shows);
  const name = headName(layer.layer, headIndex);
  const label = labelOf(cell);
  const isShown = layer.layer === layerNumber.value && headIndex === head.value;
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      aria-current={isShown}
      tabIndex={isShown ? 0 : -1}
      data-head={name}
      style={{ background: colour ? shade(colour.strength, colour.hue) : undefined }}
      onClick={() => chooseCell(cell, shows)}
    >
      {shows === "patterns" && summary && <Thumbnail summary={summary} hue={hueOf(headIndex, layer.heads)} />}
    </button>
  );
}

function Thumbnail({ summary, hue }: { summary: Summary; hue: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => canvas.current!.getContext("2d")!.drawImage(thumbnail(summary, shades(hue)), 0, 0), [summary, hue, dark.value]);
  return <canvas ref={canvas} width={summary.columns} height={summary.rows} aria-hidden="true" />;
}
