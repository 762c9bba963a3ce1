/** Bugs that must be caught, as edits of the sources that ship: each has been made by someone, or nearly. */

export interface Edit {
  /** Under `src`. */
  readonly file: string;
  /** Exactly once in the file. */
  readonly from: string;
  readonly to: string;
}

export interface PlantedBug {
  readonly name: string;
  /** What must find it: seeded runs of the log's classes, or the promises of the store held against Postgres. */
  readonly foundBy: "simulation" | "conformance";
  readonly edits: readonly Edit[];
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: "the fence takes its contexts in whatever order they are given",
    foundBy: "conformance",
    edits: [{ file: "log/postgres/commit.sql.ts", from: "  order by w.context_id\n", to: "" }],
  },
  {
    name: "the feed is read in the order of transactions, whether or not earlier ones still run",
    foundBy: "conformance",
    edits: [{ file: "log/postgres/feed.sql.ts", from: "xid < pg_snapshot_xmin(pg_current_snapshot()) and ", to: "" }],
  },
  {
    name: "an append is tried again without looking up whether it is in the log",
    foundBy: "simulation",
    edits: [
      {
        file: "log/batch-truth.ts",
        from: "const known = await findCommitted(store, asked);",
        to: "const known = await findCommitted(store, asked.slice(0, 0));",
      },
    ],
  },
  {
    name: "an answer is given from memory without confirming it",
    foundBy: "simulation",
    edits: [
      {
        file: "log/confirm.ts",
        from: "(await this.#cache.refresh([...held.keys()]))",
        to: "[...held.keys()].flatMap((id) => this.#cache.peekById(id) ?? [])",
      },
    ],
  },
  {
    name: "a call goes by rules that are remembered and not confirmed",
    foundBy: "simulation",
    edits: [
      {
        file: "invoke/resolver.ts",
        from: "await this.#parts.heads.confirm(address);",
        to: "await (this.#parts.heads as unknown as HeadConfirmer).known(address);",
      },
    ],
  },
  {
    name: "an ephemeral event is accepted after a later commit",
    foundBy: "simulation",
    edits: [
      {
        file: "publish/live-ephemerals.ts",
        from: "told.commitNo === head.commitNo) return",
        to: "told.commitNo <= head.commitNo) return",
      },
      { file: "publish/live-ephemerals.ts", from: "const isBehind = offset > head.lastOffset &&", to: "const isBehind = true || " },
      { file: "publish/hub.ts", from: "within(Math.max(seen, position), reach)", to: "within(seen, reach)" },
    ],
  },
  {
    name: "a waiter reads the past before it stands in line",
    foundBy: "simulation",
    edits: [
      { file: "log/wait.ts", from: "      line.add(waiter);\n", to: "" },
      { file: "log/wait.ts", from: "      waiter.scanned();\n", to: "      line.add(waiter);\n      waiter.scanned();\n" },
    ],
  },
  {
    name: "a restored log goes on where its backup ends",
    foundBy: "simulation",
    edits: [
      {
        file: "log/plan.ts",
        from: "this.#isRestored = head.commitNo > 0 && head.generation < generation;",
        to: "this.#isRestored = false;",
      },
    ],
  },
  {
    name: "an append is answered before it is committed",
    foundBy: "simulation",
    edits: [
      {
        file: "log/group-commit.ts",
        from: "else decisions.push({ batch, head, plan, commit: plan.commit });",
        to: `else {
        decisions.push({ batch: { ...batch, appends: [...appends] }, head, plan, commit: plan.commit });
        this.#settle(batch, plan, this.#options.clockMs() * 1_000);
      }`,
      },
    ],
  },
  {
    name: "a waiter is skipped",
    foundBy: "simulation",
    edits: [
      {
        file: "log/wait.ts",
        from: "for (const waiter of this.#waiters) if (waiter.offer(event))",
        to: "for (const waiter of [...this.#waiters].filter((_, at) => at !== 1)) if (waiter.offer(event))",
      },
    ],
  },
  {
    name: "what another process stored of the core state is taken for what this one did",
    foundBy: "simulation",
    edits: [{ file: "log/head-cache.ts", from: "if (touched.size === 0) return", to: "if (touched.size >= 0) return" }],
  },
  {
    name: "an append that came during a confirmation is refused by it",
    foundBy: "simulation",
    edits: [
      { file: "log/append-queue.ts", from: "(!isConfirmed || context.isConfirmedFor(next));", to: "(!isConfirmed || true);" },
      {
        file: "log/group-commit.ts",
        from: "appends.every((append) => context.isConfirmedFor(append))",
        to: "appends.some((append) => context.isConfirmedFor(append))",
      },
    ],
  },
  {
    name: "a schedule is fired from its claimed row, whatever the core state says by then",
    foundBy: "simulation",
    edits: [{ file: "core/schedules.ts", from: "  if (isNext) return;\n", to: "  return;\n" }],
  },
  {
    name: "due rows that are missing stay so",
    foundBy: "simulation",
    edits: [{ file: "schedules/run.ts", from: "        await sweeper.round();\n", to: "" }],
  },
  {
    name: "a due row is changed by a claim that is over",
    foundBy: "conformance",
    edits: [
      {
        file: "log/postgres/schedule.sql.ts",
        from: "delete from schedule_due where context_id = $1 and key = $2 and claimed_until =",
        to: "delete from schedule_due where context_id = $1 and key = $2 and claimed_until <>",
      },
    ],
  },
];
