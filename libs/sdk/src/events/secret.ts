/** Events of a secret, in `/secrets/<name>`. */
import { z } from "zod";
import { eventType } from "./event-type.js";

export const secretSet = eventType(
  "secret/set",
  z.object({
    path: z.string(),
    /** Origins the secret may be sent to. */
    urls: z.array(z.string()),
    sealed: z.object({
      /** Key-encryption key that wraps the data key. */
      keyId: z.string(),
      /** Base64 of the wrapped data key. */
      wrappedKey: z.string(),
      /** Base64 of nonce, ciphertext and tag. */
      box: z.string(),
    }),
  }),
  { description: "The secret has a new value, sealed.", writer: "platform", control: true },
);
