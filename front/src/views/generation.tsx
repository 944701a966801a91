// Generation: the tokens that the model generated, each with its probability and the most probable tokens in its place

import { useMemo } from "preact/hooks";
import { shade } from "../parts/colours";
import { Caution, Numbers, Panel, RankedList, Slider } from "../parts/panel";
import { busy, continueWith, nucleus, samplingTemperature } from "../state/questions";
import { query, queryTokens, locked, trace } from "../state/state";
import type { Written as WrittenToken } from "../trace/data";
import { directionOf, isolated } from "../trace/items";
import { sampleToken, logitsOf, nucleusOf, probabilities } from "../trace/next-token";
import { words } from "../words";

const HUE = 150;
const COLDEST = -3; // the slider's value is log2(temperature); any value below this stands for temperature 0
const STEP = 0.1;

export function Generation() {
  return (
    <>
      {trace.value.written.length > 0 && <Written />}
      {Boolean(trace.value.next?.length) && <NextTokens />}
    </>
  );
}

/** The tokens that were generated or chosen, as buttons. A click on a token chooses the query that predicted the token. */
function Written() {
  const say = words();
  const { written, going } = trace.value;
  const tokens = trace.value.target;
  // The query at position p - 1 predicted the token at position p.
  const predictorOf = (position: number) => Math.max(0, position - 1);
  const textOf = ({ position, alternatives }: WrittenToken) => tokens[position]?.text ?? alternatives[0]?.[0] ?? "";
  const chosen = written.find(({ position }) => query.value === predictorOf(position));
  return (
    <Panel view="generation" title={going ? say.continued : say.generation} caption={say.generationNote}>
      <p class="tokens written" dir={directionOf(written.map((one) => ({ text: textOf(one), special: false })))}>
        {written.map(({ position, probability, alternatives }) => (
          <button
            type="button"
            key={position}
            class={tokens[position]?.joined ? "word joined" : "word"}
            aria-pressed={query.value === predictorOf(position)}
            title={alternatives.map(([text, share]) => `${isolated(text)} ${share.toFixed(4)}`).join("\n")}
            disabled={predictorOf(position) >= queryTokens.value.length}
            onClick={() => ([query.value, locked.value] = [predictorOf(position), true])}
          >
            <bdi>{textOf({ position, probability, alternatives })}</bdi>
            <small style={{ background: shade(probability, HUE), width: `${100 * probability}%` }} aria-hidden="true" />
          </button>
        ))}
      </p>
      {chosen && (
        <div class="likely">
          <p class="caption">{say.likelyHere(isolated(textOf(chosen)), chosen.probability.toFixed(4))}</p>
          <RankedList lines={chosen.alternatives.map(([text, share]) => ({ name: visibleText(text), number: share.toFixed(4), share }))} />
        </div>
      )}
      <Caution />
      <Numbers
        head={[say.token, say.probability, say.alternatives]}
        rows={() =>
          written.map(({ position, probability, alternatives }) => [
            textOf({ position, probability, alternatives }),
            probability.toFixed(5),
            alternatives.map(([text, share]) => `${isolated(text)} ${share.toFixed(4)}`).join(", "),
          ])
        }
      />
    </Panel>
  );
}

/** The most probable next tokens. If a server or a web worker runs the model, a click on a token appends it to the text. */
function NextTokens() {
  const say = words();
  const { next = [], going } = trace.value;
  const logits = useMemo(() => going && logitsOf(going), [going]);
  const [temperature, leastSum] = [samplingTemperature.value, nucleus.value];
  const sampled = useMemo(() => logits && nucleusOf(probabilities(logits, temperature), leastSum), [logits, temperature, leastSum]); // the probability with which each token is sampled
  const probabilityOf = (i: number) => (going && sampled ? sampled[going.ids[i]] : next[i][1]);
  return (
    <Panel view="next" title={say.nextTokens} caption={going ? say.nextNote : ""}>
      {sampled && (
        <div class="going">
          <Slider
            label={say.nextTemperature}
            min={COLDEST - STEP}
            max={2}
            step={STEP}
            value={Math.max(COLDEST - STEP, Math.log2(temperature))}
            text={temperature.toFixed(2)}
            choose={(power) => (samplingTemperature.value = power < COLDEST - STEP / 2 ? 0 : 2 ** power)}
          />
          <Slider
            label={say.nucleus}
            min={0.05}
            max={1}
            step={0.05}
            value={leastSum}
            text={`${Math.round(100 * leastSum)} %`}
            choose={(share) => (nucleus.value = share)}
          />
          <button type="button" disabled={busy.value} title={say.drawTitle} onClick={() => void continueWith(sampleToken(sampled, Math.random()))}>
            {say.draw}
          </button>
        </div>
      )}
      <RankedList disabled={busy.value} lines={next.map(([text], i) => ({
        name: visibleText(text),
        number: probabilityOf(i).toFixed(4),
        share: probabilityOf(i),
        title: say.goOnWith(isolated(visibleText(text))),
        choose: going && (() => void continueWith(going.ids[i])),
      }))} />
    </Panel>
  );
}

/** The text of a token with "␣" for spaces; a single character that cannot be seen is written as its code. */
const visibleText = (text: string) => {
  const code = text.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
  return /^[\p{Format}\p{Mark}]$/u.test(text) ? `‹${code}›` : text.replace(/\p{Space_Separator}/gu, "␣");
};
