// The view of the sentence: the query's weights as arcs over the text, or as lines between a column of queries and one of keys

import { hueOf } from "../../parts/colours";
import { weightOrMasked, weightText } from "../../parts/numbers";
import { Caution, Choice, Numbers, Panel } from "../../parts/panel";
import { linkedChoice } from "../../state/linked-signals";
import { chooseHead, compared, head, headName, type HeadPlace, hidden, keyTokens, kind, layerNumber, layerOf, locked, trace } from "../../state/state";
import { pairedRows, shownTexts, showAllQueries, unlockQuery } from "../../state/texts";
import { words } from "../../words";
import { Arcs } from "./arcs";
import { Columns } from "./columns";
import { FRAGMENT } from "../../trace/unknown";
import { type DrawnHead, drawings, FAINTEST_LINE, headsDrawn } from "./drawn-heads";

const drawnAs = linkedChoice("sentence", "arcs", "columns");

export function Sentence() {
  const say = words();
  const shown = drawings().filter(([first], i) => i === 0 || first.row || first.grid); // if no query is chosen, only the shown head is drawn, not the heads compared with it
  const drawnHeads = shown.flat();
  const chosen = (shownTexts.value[0].query ?? shownTexts.value[1]?.query)?.label;
  const readable = readableTokens();
  const isText = 2 * keyTokens.value.filter((token) => token.place).length <= keyTokens.value.length; // else most tokens are parts of a picture or sound
  const hasDashed = shown.some((drawn) => drawn.length > 1 && drawn.some(({ dashed }) => dashed));
  return (
    <Panel
      view="sentence"
      changed
      both
      title={`${headName()} · ${chosen ?? say.showAll}`}
      caption={shown.length > 1 ? "" : caption(drawnHeads[0])}
      tools={
        <>
          <ComparedHeads />
          {locked.value && (
            <button type="button" class="lock" aria-label={say.unlock(chosen!)} onClick={unlockQuery}>{chosen} ✕</button>
          )}
          <button type="button" aria-pressed={!chosen} onClick={showAllQueries}>{say.showAll}</button>
          {isText && <Choice label={say.sentence} of={drawnAs} options={[["arcs", say.arcs], ["columns", say.columns]]} />}
        </>
      }
    >
      {kind.value.note && <p class="caption note">{say.decoderNote}</p>}
      {readable && <p class="caption note">{say.hardlyKnown(trace.value.model, readable.nReadable, readable.nTokens)}</p>}
      <div class="beside">
        {shown.map((drawn) => (
          <figure key={drawn[0].name} style={{ "--hue": drawn[0].hue }}>
            {shown.length > 1 && <figcaption class="caption"><b>{drawn[0].name}</b> {caption(drawn[0], chosen)}</figcaption>}
            {isText && drawnAs.value === "arcs" ? <Arcs drawn={drawn} /> : <Columns drawn={drawn} />}
          </figure>
        ))}
      </div>
      {hasDashed && <p class="caption">{say.solidAndDashed}</p>}
      <p class="caption hint">{hint()}</p>
      <Caution />
      {drawnHeads.some(({ row }) => row) && <Numbers head={[say.token, ...drawnHeads.map(({ name }) => name)]} rows={() => tableRows(drawnHeads)} />}
    </Panel>
  );
}

/** A row for each key, with its weight in each head; with two traces, a row for each key of the first text and its pair in the second. */
function tableRows(drawnHeads: DrawnHead[]): string[][] {
  const keys = shownTexts.value.length > 1 ? pairedRows("keys") : shownTexts.value[0].all.keys.map((item) => [item]);
  return keys.map((keyInTexts) => {
    const weights = drawnHeads.map(({ row, text }) => {
      const key = keyInTexts[text.traceIndex];
      return key ? weightOrMasked(row, key.index, 5) : "";
    });
    return [(keyInTexts[0] ?? keyInTexts[1])!.label, ...weights];
  });
}

/** A sentence about the query's strongest key. `chosen`: the query that the reader chose in the other text; if this text lacks it, the sentence says so. */
function caption({ row, text: { query, all } }: DrawnHead, chosen?: string): string {
  if (!query) return chosen ? words().notInText(chosen) : "";
  if (!row) return "";
  const strongest = row.weights.reduce((best, weight, k) => (weight > row.weights[best] ? k : best), 0);
  if (!row.weights[strongest]) return words().looksNowhere(query.label);
  return words().looksMostAt(query.label, all.keys[strongest].label, weightText(row.weights[strongest]));
}

const touches = matchMedia("(hover: none)");

function hint(): string {
  const say = words();
  const chooseHint = touches.matches ? say.hintTap : say.hintHover;
  const queryHint = locked.value ? say.hintKept : chooseHint;
  const hasQuery = shownTexts.value.some(({ query }) => query);
  const text = hasQuery ? queryHint : say.hintAll(FAINTEST_LINE);
  return hidden.value ? `${text} · ${say.hintHidden}` : text;
}

/** The names of the compared heads, each in its colour, and a button that adds the shown head to them. */
function ComparedHeads() {
  const say = words();
  const isShown = (one: HeadPlace) => one.layer === layerNumber.value && one.head === head.value;
  const add = () => {
    if (!compared.value.some(isShown)) compared.value = [...compared.value, { layer: layerNumber.value, head: head.value }];
  };
  return (
    <>
      {compared.value.map((one) => {
        const name = headName(one.layer, one.head);
        return (
          <span class="compared" key={name} style={{ "--own": hueOf(one.head, layerOf(one.layer).heads) }}>
            <button type="button" onClick={() => chooseHead(one.layer, one.head)}>{name}</button>
            <button type="button" aria-label={say.removeHead(name)} onClick={() => (compared.value = compared.value.filter((other) => other !== one))}>✕</button>
          </span>
        );
      })}
      <button type="button" title={say.addHeadTitle} onClick={add}>{say.addHead} +</button>
      {compared.value.length > 0 && <Choice label={say.headsDrawn} of={headsDrawn} options={[["over", say.headsOver], ["beside", say.headsBeside]]} />}
    </>
  );
}

/** The number of readable tokens and of all tokens, both without special tokens. Null if at least half are readable. */
function readableTokens(): { nReadable: number; nTokens: number } | null {
  const { source, target } = trace.value;
  const tokens = (source.length ? source : target).filter((token) => !token.special);
  const nReadable = tokens.filter((token) => !FRAGMENT.test(token.text)).length;
  return 2 * nReadable < tokens.length ? { nReadable, nTokens: tokens.length } : null;
}
