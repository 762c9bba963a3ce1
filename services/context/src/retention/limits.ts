/** Published bounds of retention. */
const dayMs = 86_400_000;

export const retentionLimits = {
  /** Keys, append ids and commits are recognised for so long after their events went. */
  keysKeptMs: 30 * dayMs,
  /** A subscription that stays halted holds the log for so long. */
  haltedHoldMs: 30 * dayMs,
  /** A context that gives up its past is looked at so often. */
  sweepMs: 3_600_000,
  /** Floors of one report. */
  floors: 1_000,
} as const;
