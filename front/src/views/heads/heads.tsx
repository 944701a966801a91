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

const shownOfOne = linkedChoice("heads", "token", "patterns");
const shownOfTwo = linkedChoice("heads-of-two", "difference", "token", "patterns");
const shownOfEffects = linkedChoice("heads-of-effects", "effect", "difference", "token", "patterns");
/** What the cells show. Each kind of page begins with its own choice. */
const cellShows = () => (trace.value.effects ? shownOfEffects : differingHeads.value ? shownOfTwo : shownOfOne) as Signal<CellShows>;
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

function sorted(all: Cell[]): Cell[] {
  const sign = order.value === "entropy" ? 1 : -1; // the lowest entropy comes first; in an order by another number, the highest
  const place = new Map(all.map((cell) => [cell, measureOf(cell)]));
  return [...all].sort((a, b) => {
    const [one, other] = [place.get(a), place.get(b)];
    return one === undefined || other === undefined ? Number(one === undefined) - Number(other === undefined) : sign * (one - other);
  });
}

export function Heads() {
  const say = words();
  useEffect(() => summariseAll(kind.value.layers), [trace.value, kind.value]);
  runAgainOn(headsDone);
  const count = kind.value.layers.reduce((total, layer) => total + layer.heads, 0);
  const many = count > MANY;
  const inLayers = order.value === "layer";
  const shows = cellShows().value;
  const patterns = shows === "patterns";
  const maxHeads = Math.max(...kind.value.layers.map((layer) => layer.heads));
  const token = restingQuery.value?.label;
  const all = many && inLayers ? [] : cells();
  const listed = sorted(all).slice(0, many ? FIRST : undefined);
  return (
    <Panel
      view="heads"
      title={say.allHeads}
      both={shows === "difference" || shows === "effect"}
      wide={many}
      caption={shows === "effect" ? say.headsEffect : shows === "difference" ? say.headsDifference : patterns ? say.headsPattern : token ? say.headsToken(token) : say.headsEvery}
      tools={
        <>
          <Choice label={say.headsCell} of={cellShows()} options={[...otherThanWeights(), ["token", say.oneToken], ["patterns", say.patterns]]} />
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
      {many && inLayers ? (
        <HeadsCanvas count={count} shows={shows} maxHeads={maxHeads} name={labelOf} />
      ) : (
        <div class="scroll map-scroll" tabIndex={0}>
          {inLayers ? (
            <div class="map" role="group" aria-label={say.allHeads} style={{ gridTemplateColumns: `max-content repeat(${maxHeads}, minmax(${patterns ? 22 : 9}px, ${patterns ? LARGEST : largestCell()}px))` }}>
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
                  <figcaption>{headName(cell.layer.layer, cell.head)}<br />{sortedBy(cell)}</figcaption>
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
      <Numbers
        head={[say.head, ...(trace.value.effects ? [say.effectOfHead] : []), ...(differingHeads.value ? [say.effectMoved] : []), token ? say.headsToken(token) : say.headsEvery, say.entropy, say.distance, ...(twoTexts.value ? [] : ROLES.map((role) => say[roleName(role)]))]}
        rows={() => sorted(cells()).slice(0, MANY).map((cell) => [
          headName(cell.layer.layer, cell.head),
          ...(trace.value.effects ? [measureText(cell.effect)] : []),
          ...(differingHeads.value ? [(cell.differing?.moved ?? 0).toFixed(5)] : []),
          `${cell.to ? `${cell.to.label} ` : ""}${cell.weight?.toFixed(5) ?? "…"}`,
          cell.summary ? cell.summary.entropy.toFixed(4) : "…",
          cell.summary ? cell.summary.distance.toFixed(4) : "…",
          ...(twoTexts.value ? [] : ROLES.map((role) => measureText(cell.summary?.roles?.[role]))),
        ])}
      />
    </Panel>
  );
}

function otherThanWeights(): [CellShows, string][] {
  const say = words();
  return [...(trace.value.effects ? [["effect", say.effectOfHead] as [CellShows, string]] : []), ...(differingHeads.value ? [["difference", say.differences] as [CellShows, string]] : [])];
}

function sortedBy(cell: Cell): string {
  if (order.value === "effect") return measureText(cell.effect);
  if (order.value === "token") return cell.weight === null ? "…" : weightText(cell.weight);
  return cell.summary ? measureText(measureOf(cell)) : "…";
}

const measureText = (measure: number | undefined) => (measure === undefined || Number.isNaN(measure) ? "–" : numberText(measure));

/** The text of a head: its name, the query, the word with the largest weight, and the weight: "L3H1: it → snake 0.6741". */
function labelOf({ layer, head: headIndex, to, weight, differing, effect }: Cell): string {
  const name = headName(layer.layer, headIndex);
  if (cellShows().value === "effect") return `${name}: ${measureText(effect)}`;
  if (cellShows().value === "difference") return `${name}: ${differing ? `${queryLabels.value[differing.query]} ${weightText(differing.moved)}` : "0"}`;
  const from = restingQuery.value?.label;
  const number = weight === null ? "…" : weightText(weight, layer);
  return from && to ? `${name}: ${from} → ${to.label} ${number}` : `${name}: ${number}`;
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
      style={{ background: colour ? shade(colour.shown, colour.hue) : undefined }}
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
