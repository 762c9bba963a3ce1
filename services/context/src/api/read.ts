/** The read side of ContextService: decode, authorize, call, encode. */
import type {
  ConfigPointer,
  ContextServiceService,
  DescribeContextResponse,
  OpenRun,
  ReadEventsResponse,
  Retention,
  Rule,
  StreamEventsResponse,
  Subscription,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { CallContext, HandlerOf, MethodRule } from "@iterate-platform/service/grpc-server";
import { printExpression, printTarget } from "iterate/expression";
import { CodedError, codedError } from "iterate/lib";
import type { ConfigState, CoreState, RetentionState, RunRow, SubscriptionRow } from "../core/contract.js";
import { firstOffsetOf } from "../core/retention.js";
import { jsonProblem } from "../json/scan.js";
import { readableCore, type Heads } from "../log/confirm.js";
import { EncodedPage } from "../log/encoded-page.js";
import { readLimits } from "../log/limits.js";
import { PayloadMatch } from "../log/payload-match.js";
import type { MixedReads } from "../log/mixed-read.js";
import type { Past } from "../past/contract.js";
import type { Page, Reads } from "../log/page.js";
import type { Streams } from "../log/stream.js";
import type { Waits } from "../log/wait.js";
import type { RuleRow } from "../rules/contract.js";
import { ruleTable } from "../rules/table.js";
import { EncodedRead, EncodedStep } from "./encoded-answers.js";
import { addressOf, afterOffsetOf, countOf, offsetOf, typesOf } from "./input.js";

type Methods = Pick<ContextServiceService, "readEvents" | "streamEvents" | "waitForEvent" | "describeContext">;

const readers: MethodRule = { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" };

export const readRules: Record<keyof Methods, MethodRule> = {
  readEvents: readers,
  streamEvents: readers,
  waitForEvent: readers,
  describeContext: readers,
};

export interface ReadParts {
  readonly reader: Reads;
  /** Reads that include ephemeral events. */
  readonly mixed: MixedReads;
  readonly heads: Heads;
  readonly streams: Streams;
  readonly waits: Waits;
  readonly past: Past;
}

export function readHandlers({ reader, mixed, heads, streams, waits, past }: ReadParts): {
  readonly [Name in keyof Methods]: HandlerOf<Methods[Name]>;
} {
  return {
    readEvents: async ({ context, afterOffset, limit, types, includeEphemeral }, { caller, signal }) => {
      const bounds = { limit: countOf("limit", limit, readLimits.events, readLimits.defaultEvents), maxBytes: readLimits.bytes };
      const [address, after, names] = [addressOf(context, caller), afterOffsetOf(afterOffset), typesOf(types, 0)];
      if (includeEphemeral) {
        const page = await mixed.read(address, after, names, bounds, signal);
        return readMessage(page, page.areEphemeralsIncluded);
      }
      const page = await reader.read(address, after, names, { ...bounds, isAnyForm: true }, signal);
      return page instanceof EncodedPage ? new EncodedRead(page) : readMessage(page, false);
    },
    streamEvents: async function* (
      { context, afterOffset, types, includeEphemeral },
      { caller, signal },
    ): AsyncGenerator<StreamEventsResponse> {
      const after = afterOffset === undefined ? undefined : afterOffsetOf(afterOffset);
      const request = {
        address: addressOf(context, caller),
        after,
        types: typesOf(types, 0),
        heard: includeEphemeral ? ("all" as const) : ("stored" as const),
      };
      for await (const page of streams.follow(request, signal))
        yield page instanceof EncodedPage ? new EncodedStep(page) : pageMessage(page);
    },
    waitForEvent: async ({ context, afterOffset, types, payload, timeoutMs }, call) => {
      const request = {
        address: addressOf(context, call.caller),
        types: typesOf(types, 1),
        payload: payload === undefined ? undefined : payloadMatch(payload),
        after: afterOffset === undefined ? undefined : afterOffsetOf(afterOffset),
        timeoutMs: countOf("timeout_ms", timeoutMs, readLimits.waitMs, readLimits.defaultWaitMs),
      };
      return { event: await whileServing(call, (signal) => waits.wait(request, signal)) };
    },
    describeContext: async ({ context, atOffset, includeRules }, { caller, signal }) => {
      const at = atOffset === undefined ? undefined : offsetOf("at_offset", atOffset);
      const head = await heads.confirm(addressOf(context, caller));
      const headOffset = head?.lastOffset ?? 0;
      if (at !== undefined && at > headOffset)
        throw codedError("INVALID_INPUT", `at_offset is ${at}; the head of this context is at offset ${headOffset}`, {
          headOffset,
        });
      if (head === undefined) return unbornMessage;
      const asOf = at ?? headOffset;
      const now = readableCore(head);
      const core = asOf === headOffset ? now : await past.coreAt(head, asOf, signal);
      return {
        headOffset: BigInt(head.lastOffset),
        commitNo: BigInt(head.commitNo),
        lastControl: BigInt(head.lastControl),
        createdAtUs: BigInt(head.createdAtUs),
        asOfOffset: BigInt(asOf),
        ...coreMessage(core),
        rules: includeRules === true ? ruleMessages(core) : [],
      };
    },
  };
}

function readMessage(page: Page, ephemeralsIncluded: boolean): ReadEventsResponse {
  return { ...pageMessage(page), scannedAfterOffset: BigInt(page.scannedAfter), ephemeralsIncluded };
}

function pageMessage({ events, scannedThrough, isAtHead }: Page): StreamEventsResponse {
  return { events: events as StreamEventsResponse["events"], scannedThroughOffset: BigInt(scannedThrough), atHead: isAtHead };
}

function payloadMatch(payload: Uint8Array): PayloadMatch {
  if (payload.length > readLimits.payloadBytes)
    throw codedError("INVALID_INPUT", `payload has ${payload.length} bytes; a wait compares at most ${readLimits.payloadBytes}`);
  // What an append refuses matches nothing, and may be read in two ways.
  const problem = jsonProblem(Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength));
  if (problem !== null) throw codedError("INVALID_JSON", `payload ${problem}`, { field: "payload" });
  return new PayloadMatch(payload);
}

/** Ends long work of a unary call at once when the server begins to drain, so that the caller waits elsewhere. */
async function whileServing<T>({ signal, draining }: CallContext, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ending = new AbortController();
  const drain = (): void => ending.abort(new CodedError("UNAVAILABLE", "the server is draining; wait again", { retryAfterMs: 0 }));
  if (draining.aborted) drain();
  draining.addEventListener("abort", drain, { once: true });
  try {
    return await work(AbortSignal.any([signal, ending.signal]));
  } finally {
    draining.removeEventListener("abort", drain);
  }
}

const unbornMessage: DescribeContextResponse = {
  headOffset: 0n,
  commitNo: 0n,
  lastControl: 0n,
  createdAtUs: 0n,
  subscriptions: [],
  config: undefined,
  firstOffset: 0n,
  retention: undefined,
  projectSlug: "",
  asOfOffset: 0n,
  rules: [],
  openRuns: [],
  incarnation: 0n,
};

function coreMessage(
  core: CoreState,
): Pick<
  DescribeContextResponse,
  "subscriptions" | "config" | "firstOffset" | "retention" | "projectSlug" | "openRuns" | "incarnation"
> {
  const { subscriptions, config, project, retention, runs } = core;
  return {
    subscriptions: Object.values(subscriptions).map(subscriptionMessage),
    config: config === null ? undefined : configMessage(config),
    firstOffset: BigInt(firstOffsetOf(core)),
    retention: retention === null ? undefined : retentionMessage(retention),
    projectSlug: project?.slug ?? "",
    openRuns: Object.values(runs.open).map(openRunMessage),
    incarnation: BigInt(runs.incarnation),
  };
}

function retentionMessage({ keepFrom, configuredAtOffset }: RetentionState): Retention {
  return { configuredAtOffset: BigInt(configuredAtOffset), keepFrom: keepFrom === null ? undefined : keepFromMessage(keepFrom) };
}

function keepFromMessage(keepFrom: NonNullable<RetentionState["keepFrom"]>): Retention["keepFrom"] {
  return "offset" in keepFrom
    ? { $case: "offset", value: BigInt(keepFrom.offset) }
    : { $case: "maxAgeMs", value: BigInt(keepFrom.maxAgeMs) };
}

function subscriptionMessage({
  name,
  target,
  consumes,
  afterOffset,
  configuredAtOffset,
  haltedAtOffset,
  resumedAtOffset,
  resumedAfterOffset,
  missedBelow,
}: SubscriptionRow): Subscription {
  return {
    name,
    target: JSON.stringify(target),
    consumes: [...consumes],
    afterOffset: BigInt(afterOffset),
    configuredAtOffset: BigInt(configuredAtOffset),
    haltedAtOffset: BigInt(haltedAtOffset ?? 0),
    resumedAtOffset: BigInt(resumedAtOffset ?? 0),
    resumedAfterOffset: resumedAfterOffset === null ? undefined : BigInt(resumedAfterOffset),
    missedBelowOffset: BigInt(missedBelow ?? 0),
  };
}

function ruleMessages(core: CoreState): Rule[] {
  return Object.entries(ruleTable(core))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, row]) => ruleMessage(row));
}

function ruleMessage({ match, target, description, instructions, types, configuredAtOffset }: RuleRow): Rule {
  return {
    match: printExpression(match),
    target: target === null ? undefined : printTarget(target),
    description: description ?? "",
    instructions: instructions ?? "",
    types: types ?? "",
    configuredAtOffset: BigInt(configuredAtOffset),
  };
}

function openRunMessage({ requestOffset, deadlineMs, ancestor, limitKey }: RunRow): OpenRun {
  return {
    requestOffset: BigInt(requestOffset),
    deadlineMs,
    ancestorOffset: BigInt(ancestor?.requestOffset ?? 0),
    limitKey: limitKey ?? "",
  };
}

function configMessage({ digest, commitOid, generation, modules, mainModule }: ConfigState): ConfigPointer {
  return {
    digest,
    commitOid,
    generation: BigInt(generation),
    modules: modules.map(({ file, identity, classes, module }) => ({ file, identity, classes: [...classes], module })),
    mainModule: mainModule ?? "",
  };
}
