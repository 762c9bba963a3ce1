export class VirtualTime {
    #tasks = [];
    #nowMs = 0;
    #serial = 0;
    nowMs() {
        return this.#nowMs;
    }
    soon(work) {
        this.after(0, work);
    }
    after(ms, work) {
        const task = { atMs: this.#nowMs + Math.max(0, ms), serial: (this.#serial += 1), work, isCancelled: false };
        this.#push(task);
        return () => void (task.isCancelled = true);
    }
    sleep(ms) {
        return new Promise((resolve) => void this.after(ms, resolve));
    }
    /**
     * Runs tasks until `isDone`. Throws when there is nothing left to run, or when it is `boundMs` later.
     */
    async run(isDone, boundMs = Infinity) {
        const until = this.#nowMs + boundMs;
        await settled();
        while (!isDone()) {
            const task = this.#pop();
            if (task === undefined)
                throw new Error("nothing is left to happen, and the end was not reached");
            if (task.isCancelled)
                continue;
            if (task.atMs > until)
                throw new Error(`the end was not reached within ${boundMs} ms of virtual time`);
            this.#nowMs = task.atMs;
            task.work();
            await settled();
        }
    }
    #push(task) {
        const tasks = this.#tasks;
        let at = tasks.push(task) - 1;
        while (at > 0) {
            const parent = (at - 1) >> 1;
            if (isBefore(tasks[parent], task))
                break;
            tasks[at] = tasks[parent];
            at = parent;
        }
        tasks[at] = task;
    }
    #pop() {
        const tasks = this.#tasks;
        const first = tasks[0];
        const last = tasks.pop();
        if (last === undefined || tasks.length === 0)
            return first;
        let at = 0;
        for (;;) {
            let child = 2 * at + 1;
            if (child >= tasks.length)
                break;
            if (child + 1 < tasks.length && isBefore(tasks[child + 1], tasks[child]))
                child += 1;
            if (isBefore(last, tasks[child]))
                break;
            tasks[at] = tasks[child];
            at = child;
        }
        tasks[at] = last;
        return first;
    }
}
function isBefore(one, other) {
    return one.atMs < other.atMs || (one.atMs === other.atMs && one.serial < other.serial);
}
/** Every microtask has run by the time the event loop takes its next turn. */
function settled() {
    return new Promise((resolve) => setImmediate(resolve));
}
//# sourceMappingURL=virtual-time.js.map