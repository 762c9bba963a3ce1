/** A group was refused, with nothing written, because an event of it is in the log already: under its append id, its key or its offset. */
export class AlreadyStored extends Error {
  constructor(cause?: unknown) {
    super("the log holds an event of this commit already", { cause });
    this.name = "AlreadyStored";
  }
}
