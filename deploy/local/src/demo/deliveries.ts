/** Real webhook deliveries: every example payload that GitHub publishes, signed as GitHub signs. */
import { createHmac, hash } from "node:crypto";
import { createRequire } from "node:module";

export interface Delivery {
  /** GUID of the delivery. */
  readonly id: string;
  /** Event name. */
  readonly name: string;
  readonly body: Buffer;
}

interface PublishedEvent {
  readonly name: string;
  readonly examples: readonly object[];
}

/** All of them: 329 payloads of 58 events in the pinned version of the package. `prefix` makes ids of different rounds differ. */
export function exampleDeliveries(prefix: string): Delivery[] {
  const published = createRequire(import.meta.url)(
    "@octokit/webhooks-examples/api.github.com/index.json",
  ) as readonly PublishedEvent[];
  return published.flatMap(({ name, examples }) =>
    examples.map((example, index) => ({
      id: guid(`${prefix} ${name} ${index}`),
      name,
      body: Buffer.from(JSON.stringify(example)),
    })),
  );
}

/** The same text gives the same GUID, as a redelivery repeats its id. */
function guid(text: string): string {
  const hex = hash("sha256", text);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

export interface Answer {
  readonly status: number;
  /** What the body says, `accepted` or `duplicate`; the problem's code otherwise. */
  readonly outcome: string;
}

/** Posts one delivery. A connection that breaks is status 0: not acknowledged. */
export async function post(url: string, secret: string, { id, name, body }: Delivery): Promise<Answer> {
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  try {
    const response = await fetch(url, {
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        "x-github-delivery": id,
        "x-github-event": name,
        "x-hub-signature-256": `sha256=${signature}`,
      },
      signal: AbortSignal.timeout(15_000),
    });
    const answer = (await response.json()) as { status?: string | number; code?: string };
    return { status: response.status, outcome: typeof answer.status === "string" ? answer.status : (answer.code ?? "unknown") };
  } catch {
    return { status: 0, outcome: "no answer" };
  }
}

/** Posts all, `concurrency` at a time, and calls back with each answer. */
export async function postAll(
  url: string,
  secret: string,
  deliveries: readonly Delivery[],
  concurrency: number,
  onAnswer: (delivery: Delivery, answer: Answer) => void,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let delivery = deliveries[next++]; delivery !== undefined; delivery = deliveries[next++]) {
      onAnswer(delivery, await post(url, secret, delivery));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
