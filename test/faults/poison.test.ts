/** One append of a group that its statement cannot carry: it fails alone. */
import { AppendRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { uuidv7 } from "@iterate-platform/service/ids";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const cluster = useCluster();
const poison = '"the database does not take this"';

test(
  "only the guilty append fails, however many ride with it",
  async () => {
    await select(cluster.database.url, `alter table event add constraint poison check (payload is distinct from '${poison}')`);
    const load = cluster.load({ writers: 10 });
    for (let round = 0; round < count(5); round += 1) {
      const place = load.places[round % load.places.length]!;
      const guilty = cluster.pod(round % 2).clients.context.append(
        AppendRequest.fromPartial({
          context: place,
          appendId: uuidv7(),
          events: [
            { type: "test/a", payload: Buffer.from("1"), metadata: Buffer.from(`{"owner":"${place.owner}","guilty":true}`) },
            { type: "test/a", payload: Buffer.from(poison) },
          ],
        }),
      );
      const [refusal] = await Promise.all([guilty.catch((error: unknown) => error), load.acknowledged(8)]);
      expect(refusal).toMatchObject({ code: "INTERNAL" });
    }
    await cluster.expectAllPromises(load);
    for (const { events } of load.history.streams) expect(events.filter(({ metadata }) => metadata.includes("guilty"))).toEqual([]);
  },
  testBoundMs,
);
