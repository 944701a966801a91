// Generation: the tokens that the model wrote, with their probabilities and what it might have written instead

import { shade } from "../colours";
import { query, queryTokens, locked, trace } from "../state";
import { words } from "../words";
import { Numbers, Panel } from "./panel";

const HUE = 150;

export function Generation() {
  const say = words();
  const written = trace.value.written;
  if (!written.length) return <NextTokens />;
  const tokens = trace.value.target;
  // The token at position p was written by the query before it.
  const writer = (position: number) => Math.max(0, position - 1);
  return (
    <Panel view="generation" title={say.generation} caption={say.generationNote}>
      <p class="tokens written">
        {written.map(({ position, probability, alternatives }) => (
          <button
            type="button"
            key={position}
            class={tokens[position]?.joined ? "word joined" : "word"}
            aria-pressed={query.value === writer(position)}
            title={alternatives.map(([text, share]) => `${text} ${share.toFixed(4)}`).join("\n")}
            disabled={writer(position) >= queryTokens.value.length}
            onClick={() => ([query.value, locked.value] = [writer(position), true])}
          >
            <bdi>{tokens[position]?.text ?? alternatives[0]?.[0]}</bdi>
            <small style={{ background: shade(probability, HUE), width: `${100 * probability}%` }} aria-hidden="true" />
          </button>
        ))}
      </p>
      <Numbers
        head={[say.token, say.probability, say.alternatives]}
        rows={() =>
          written.map(({ position, probability, alternatives }) => [
            tokens[position]?.text ?? "",
            probability.toFixed(5),
            alternatives.map(([text, share]) => `${text} ${share.toFixed(4)}`).join(", "),
          ])
        }
      />
    </Panel>
  );
}

/** The likely next tokens after a text, where a server tells them. */
function NextTokens() {
  const say = words();
  const next = trace.value.next ?? [];
  if (!next.length) return null;
  return (
    <Panel view="generation" title={say.nextTokens}>
      <ol class="top next">
        {next.map(([text, share]) => (
          <li key={text}>
            <i style={{ width: `${100 * share}%` }} />
            <span>{text}</span>
            <span>{share.toFixed(4)}</span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
