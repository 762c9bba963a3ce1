/** The subscription rows a publication implies: each is made where it lacks or differs, and those of the former publication that are gone go. */
import type { BundleEntry, ProcessorDeclaration } from "@iterate-platform/proto/iterate/bundler/v1/build";
import type { Subscription } from "@iterate-platform/proto/iterate/context/v1/context";
import { itx } from "iterate/events";
import { resolveContextPath } from "iterate/lib";
import { parseTarget } from "../../delivery/target.js";
import type { BundleDescription } from "../../isolate/client.js";
import type { ContextLog } from "../../log/contract.js";
import type { NativeEnvironment } from "../native-hosts.js";
import { appendOnce } from "./append-once.js";
import type { Candidate, RowName } from "./contract.js";

/** A row filters by at most so many types; a processor that takes more is given every event. */
const maxConsumes = 100;

interface WantedRow extends RowName {
  /** Parsed expression. */
  readonly target: readonly unknown[];
  /** Empty means every event. */
  readonly consumes: readonly string[];
}

export class SubscriptionRows {
  readonly #log: ContextLog;
  readonly #environment: NativeEnvironment;

  constructor(log: ContextLog, environment: NativeEnvironment) {
    this.#log = log;
    this.#environment = environment;
  }

  /** Answers the rows that are configured now. */
  async configure(
    candidate: Candidate,
    declared: readonly ProcessorDeclaration[],
    description: BundleDescription,
    entries: readonly BundleEntry[],
    former: readonly RowName[],
  ): Promise<RowName[]> {
    const wanted = declared.map((declaration) => wantedRow(declaration, description, entries));
    for (const row of wanted) {
      const found = await this.#row(row);
      if (found === undefined || !isSame(found, row))
        await this.#write(candidate, row, { target: row.target, consumes: row.consumes });
    }
    for (const row of former) {
      if (wanted.some(({ context, name }) => context === row.context && name === row.name)) continue;
      const found = await this.#row(row);
      // A row that someone has made another one since is theirs.
      if (found !== undefined && parseTarget(found.target).kind === "facet")
        await this.#write(candidate, row, { target: null, configuredAt: Number(found.configuredAtOffset) });
    }
    return wanted.map(({ context, name }) => ({ context, name }));
  }

  async #row({ context, name }: RowName): Promise<Subscription | undefined> {
    const { owner, scope } = this.#environment;
    const { subscriptions } = await this.#log.describe({ owner, path: context }, { signal: scope.signal });
    return subscriptions.find((row) => row.name === name);
  }

  async #write(
    { offset }: Candidate,
    { context, name }: RowName,
    change: { target: readonly unknown[]; consumes: readonly string[] } | { target: null; configuredAt: number },
  ): Promise<void> {
    const payload =
      change.target === null
        ? { name, target: null, ifConfiguredAtOffset: change.configuredAt }
        : // A processor's state is the fold of the whole log, so it starts at the beginning.
          { name, target: change.target, afterOffset: 0, ...(change.consumes.length === 0 ? {} : { consumes: change.consumes }) };
    await appendOnce(this.#environment.writer, context, [
      { type: itx.subscriptionConfigured.type, payload, idempotencyKey: `project/subscription:${offset}:${name}` },
    ]);
  }
}

function wantedRow(
  { name, file, className, context }: ProcessorDeclaration,
  { exports }: BundleDescription,
  entries: readonly BundleEntry[],
): WantedRow {
  const module = entries.find((entry) => entry.file === file)?.module;
  const consumes = exports.find((exported) => exported.module === module && exported.name === className)?.contract?.consumes ?? "*";
  return {
    context: resolveContextPath("/", context),
    name,
    target: ["itx", "facets", ["get", name, { source: ["itx", "config"], module: file, className }]],
    consumes: consumes === "*" || consumes.length > maxConsumes ? [] : consumes,
  };
}

function isSame({ target, consumes }: Subscription, row: WantedRow): boolean {
  return (
    JSON.stringify(parseTarget(target)) === JSON.stringify(parseTarget(JSON.stringify(row.target))) &&
    JSON.stringify(consumes) === JSON.stringify(row.consumes)
  );
}
