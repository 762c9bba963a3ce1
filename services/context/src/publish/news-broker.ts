/** What the live side asks of the broker: the ways of `Broker`, without its connection. */
import type { Broker } from "@iterate-platform/service/nats";

export type NewsBroker = Pick<Broker, "status" | "newInbox" | "publish" | "subscribe" | "flush" | "onStatus" | "onReconnect">;
