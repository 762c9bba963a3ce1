/**
 * Named points where a test makes a process fail. `FAILPOINTS=append.after-commit=kill,publish=error*2` arms them; unarmed points
 * cost one look at an empty map. Grammar of one entry: `name=kill|error|hang[@n][*m]`: from the n-th pass on (default 1), for m
 * passes (default for ever).
 */
import { codedError } from "iterate/lib";

export type FailpointAction = "kill" | "error" | "hang";

interface Armed {
  readonly act: () => void | Promise<void>;
  readonly from: number;
  readonly passes: number;
  seen: number;
}

const entryPattern = /^([a-z0-9][a-z0-9.:-]*)=(kill|error|hang)(?:@(\d+))?(?:\*(\d+))?$/;

export class Failpoints {
  readonly #armed = new Map<string, Armed>();

  /**
   * Arms what `text` names (the form of `FAILPOINTS`) and disarms all else. Throws INVALID_INPUT for an entry outside the grammar.
   */
  set(text: string): void {
    this.#armed.clear();
    for (const entry of text.split(",").map((part) => part.trim())) {
      if (entry === "") continue;
      const match = entryPattern.exec(entry);
      if (match === null)
        throw codedError("INVALID_INPUT", `FAILPOINTS holds ${JSON.stringify(entry)}; write name=kill|error|hang[@n][*m]`);
      const [, name, action, from, passes] = match;
      this.#armed.set(name!, {
        act: actions[action as FailpointAction](name!),
        from: from === undefined ? 1 : Number(from),
        passes: passes === undefined ? Infinity : Number(passes),
        seen: 0,
      });
    }
  }

  /** Runs `act` at every pass of `name` until the returned function is called: how a test inside the process holds a point. */
  on(name: string, act: () => void | Promise<void>): () => void {
    const armed: Armed = { act, from: 1, passes: Infinity, seen: 0 };
    this.#armed.set(name, armed);
    return () => {
      if (this.#armed.get(name) === armed) this.#armed.delete(name);
    };
  }

  /** Names that are armed now. */
  get names(): string[] {
    return [...this.#armed.keys()];
  }

  /**
   * Passes the point. `kill` ends the process without a destructor, `error` throws UNAVAILABLE, `hang` never settles.
   * Await the result where the point may hang.
   */
  readonly pass = (name: string): void | Promise<void> => {
    if (this.#armed.size === 0) return;
    const armed = this.#armed.get(name);
    if (armed === undefined) return;
    armed.seen += 1;
    if (armed.seen < armed.from || armed.seen >= armed.from + armed.passes) return;
    return armed.act();
  };
}

const actions: Record<FailpointAction, (name: string) => () => void | Promise<void>> = {
  kill: () => () => {
    process.kill(process.pid, "SIGKILL");
    // The signal is asynchronous: stay here until it lands, so nothing after the point runs.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  },
  error: (name) => () => {
    throw codedError("UNAVAILABLE", `failpoint ${name} is armed`, { failpoint: name });
  },
  hang: () => () => new Promise<void>(() => {}),
};

/** The process's own points, armed from `FAILPOINTS` when this module loads. */
export const failpoints = new Failpoints();
failpoints.set(process.env["FAILPOINTS"] ?? "");

export const failpoint: Failpoints["pass"] = failpoints.pass;
