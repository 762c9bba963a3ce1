/** The thread that examines large bodies; see worker-thread.ts. */
import { parentPort } from "node:worker_threads";
import { examineBody, type Body } from "./body.js";

parentPort!.on("message", ({ id, body }: { id: number; body: Body }) => {
  parentPort!.postMessage({ id, verdict: examineBody(body) });
});
