/** `grpc.reflection.v1` (and v1alpha) from the descriptor set that `buf build` writes: what clients without our stubs discover. */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import type { Server } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";

/** Serves the descriptors of `descriptorSet` (a serialised FileDescriptorSet), listing `services` alone. */
export function addReflection(server: Server, descriptorSet: Uint8Array, services: readonly string[]): void {
  // The library reads no more of a package than the serialised file descriptors of its entries.
  const root = {
    set: { format: "Protocol Buffer 3 DescriptorProto" as const, type: {}, fileDescriptorProtos: fileDescriptors(descriptorSet) },
  };
  new ReflectionService(root, { services: [...services] }).addToServer(server);
}

/** The serialised files of a set: its field 1, each. */
function fileDescriptors(descriptorSet: Uint8Array): Buffer[] {
  const reader = new BinaryReader(descriptorSet);
  const files: Buffer[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1 && wireType === WireType.LengthDelimited) files.push(Buffer.from(reader.bytes()));
    else reader.skip(wireType, field);
  }
  return files;
}
