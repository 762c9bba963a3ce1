/** Calls of expressions at one context, for sessions and project code: JSON in, JSON out, over the context service. */
import type { Expression as ExpressionMessage, ResultPart } from "@iterate-platform/proto/iterate/type/v1/invocation";
import type { ContextAddress } from "@iterate-platform/proto/iterate/type/v1/context";
import type { Description, ExplainSubject, Explanation } from "iterate/api";
import type { Expression } from "iterate/expression";
import type { Answer } from "./capability-calls.js";
import type { ContextClient } from "./context-log.js";
import { fromDescribeResponse } from "./description.js";
import { explainSubject, fromExplainResponse } from "./explanation.js";
import type { CallOptions } from "./grpc-client.js";
import { readResult } from "./invocation-result.js";

export class ContextCalls {
  readonly #client: Pick<ContextClient, "invoke" | "describe" | "explain">;
  readonly #address: ContextAddress;
  readonly #options: CallOptions;

  /** @param options credentials, cancellation and deadline of every call. */
  constructor(client: Pick<ContextClient, "invoke" | "describe" | "explain">, address: ContextAddress, options: CallOptions) {
    this.#client = client;
    this.#address = address;
    this.#options = options;
  }

  /**
   * What a call answers: a value, or a stream that is read as it is asked for and ends when its reader leaves it.
   *
   * @param keyScope what the keys of appends begin with that the call makes and gives none; empty for a call that is not repeated.
   * @throws CodedError as ContextService.Invoke does.
   */
  invoke(expression: Expression, keyScope = ""): Promise<Answer> {
    const request = { context: this.#address, expression: message(expression), keyScope };
    return readResult(parts(this.#client.invoke(request, this.#options)));
  }

  /** What an expression is; without one, what the context answers. Throws as ContextService.Describe does. */
  async describe(expression?: Expression): Promise<Description> {
    const asked = expression === undefined ? undefined : message(expression);
    return fromDescribeResponse(await this.#client.describe({ context: this.#address, expression: asked }, this.#options));
  }

  /** Why something is, or is not, done. Throws as ContextService.Explain does. */
  async explain(subject: ExplainSubject): Promise<Explanation> {
    return fromExplainResponse(
      await this.#client.explain({ context: this.#address, subject: explainSubject(subject) }, this.#options),
    );
  }
}

function message(expression: Expression): ExpressionMessage {
  return { form: { $case: "parsed", value: Buffer.from(JSON.stringify(expression)) } };
}

async function* parts(
  responses: AsyncIterable<{ readonly part?: ResultPart | undefined }>,
): AsyncGenerator<ResultPart | undefined, void> {
  for await (const { part } of responses) yield part;
}
