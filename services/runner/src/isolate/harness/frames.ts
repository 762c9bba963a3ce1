/**
 * Answers the values of a generator as lines: `f` and JSON for each, then `d` for the end or `e` and JSON for what was thrown; the
 * last line's mark is doubled when records were written, so that the supervisor waits for them.
 *
 * A short answer goes out whole. A frame that says `backgroundCount` above 0 goes out at once, and the generator is asked for more
 * only when the platform has kept the frame; a long answer goes out as it is taken.
 */
import { recordsDrained } from "./console.js";
import { failureOf } from "./failure.js";
import { scopes, type Scope } from "./scope.js";

/** Characters held before the answer goes out in pieces. */
const heldChars = 256 * 1024;

interface Taken {
  readonly text: string;
  /** The generator waits until the platform says to proceed. */
  readonly mustBeKept: boolean;
  readonly isLast: boolean;
}

export async function answerFrames(scope: Scope, source: AsyncGenerator<unknown>): Promise<Response> {
  let held = "";
  for (;;) {
    const taken = await take(scope, source);
    held += taken.text;
    if (taken.isLast) return new Response(held);
    if (taken.mustBeKept || held.length > heldChars) return new Response(piecewise(scope, source, held, taken.mustBeKept));
  }
}

function piecewise(
  scope: Scope,
  source: AsyncGenerator<unknown>,
  first: string,
  firstMustBeKept: boolean,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let mustBeKept = firstMustBeKept;
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(first)),
      async pull(controller) {
        if (mustBeKept) await scope.session.call("batch.proceed", [], scope.contextPath);
        const taken = await take(scope, source);
        mustBeKept = taken.mustBeKept;
        controller.enqueue(encoder.encode(taken.text));
        if (taken.isLast) controller.close();
      },
      cancel: () => scope.session.close(),
    },
    { highWaterMark: 1 },
  );
}

/** The generator's next value, run in the invocation's scope. Never rejects. */
async function take(scope: Scope, source: AsyncGenerator<unknown>): Promise<Taken> {
  try {
    const next: IteratorResult<unknown> = await scopes.run(scope, () => source.next());
    if (next.done === true) return last(scope, "d", "");
    const { value } = next;
    const text = JSON.stringify(value);
    return {
      text: `f${text}\n`,
      mustBeKept: ((value as { backgroundCount?: unknown } | null)?.backgroundCount ?? 0) !== 0,
      isLast: false,
    };
  } catch (thrown) {
    return last(scope, "e", JSON.stringify(failureOf(thrown)));
  }
}

function last(scope: Scope, mark: string, body: string): Taken {
  scope.session.close();
  if (scope.hasLogged) recordsDrained(scope.ordinal);
  return { text: `${mark}${scope.hasLogged ? mark : " "}${body}\n`, mustBeKept: false, isLast: true };
}
