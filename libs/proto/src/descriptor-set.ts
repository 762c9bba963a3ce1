/** The compiled descriptor set of `proto/`, served by gRPC reflection. */
import { readFileSync } from "node:fs";

/** A serialised `google.protobuf.FileDescriptorSet` of every contract, with comments left out. */
export function readDescriptorSet(): Buffer {
  return readFileSync(new URL("../descriptor-set.binpb", import.meta.url));
}
