/** Calls of expressions over gRPC, as those who make them see the answers. */
import { readResult } from "@iterate-platform/service/invocation-result";
import { person, type Caller, type Context, type LogService } from "./log-service.fixture.js";

export class Calls {
  /** @param clientOf where calls go; to the process of the service when absent. */
  constructor(
    private readonly service: LogService,
    private readonly clientOf: (caller: Caller) => ReturnType<LogService["as"]> = (caller) => service.as(caller),
  ) {}

  /** The value a call answers. */
  async value(context: Context, expression: string | readonly unknown[], caller: Caller = person): Promise<unknown> {
    const answer = await this.#answer(context, expression, caller);
    if (answer.kind === "stream") throw new Error("the call was answered with a stream");
    return answer.value;
  }

  /** The stream a call answers, as far as it is read. */
  async *stream(context: Context, expression: string, caller: Caller = person): AsyncGenerator<unknown> {
    const answer = await this.#answer(context, expression, caller);
    if (answer.kind === "value") throw new Error("the call was answered with a value");
    yield* answer.items;
  }

  async #answer(context: Context, expression: string | readonly unknown[], caller: Caller) {
    const form =
      typeof expression === "string"
        ? { $case: "text" as const, value: expression }
        : { $case: "parsed" as const, value: Buffer.from(JSON.stringify(expression)) };
    const options = { ...(await this.service.optionsOf(caller, context)), deadlineMs: 20_000 };
    const responses = this.clientOf(caller).invoke({ context, expression: { form }, keyScope: "" }, options);
    return await readResult(parts(responses));
  }
}

async function* parts<Part>(responses: AsyncIterable<{ readonly part?: Part }>): AsyncGenerator<Part | undefined> {
  for await (const { part } of responses) yield part;
}
