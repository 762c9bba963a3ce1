/**
 * A clock that moves only when nothing else can happen: tasks run one at a time in the order of their times, and all promises that a
 * task settles are followed to their end before the next task. With seeded delays a whole run is a function of its seed.
 */
import type { Timers } from "../../src/timers.js";
export declare class VirtualTime implements Timers {
    #private;
    nowMs(): number;
    soon(work: () => void): void;
    after(ms: number, work: () => void): () => void;
    sleep(ms: number): Promise<void>;
    /**
     * Runs tasks until `isDone`. Throws when there is nothing left to run, or when it is `boundMs` later.
     */
    run(isDone: () => boolean, boundMs?: number): Promise<void>;
}
//# sourceMappingURL=virtual-time.d.ts.map