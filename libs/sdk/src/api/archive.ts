/** Exports and imports of projects over a session. An archive is JSON lines; where it is kept, and whether compressed, is the client's. */

export interface ExportArgs {
  /** One context; absent exports all of the project. */
  readonly path?: string;
  /** Called with one piece after the other; the next one comes when the answer is there. A failure ends the export. */
  readonly onPiece: (piece: ArchivePiece) => void | Promise<void>;
}

export interface ArchivePiece {
  readonly data: Uint8Array;
  /** Complete contexts, and events, so far. */
  readonly contexts: number;
  readonly events: number;
}

export interface ArchiveCounts {
  readonly contexts: number;
  readonly events: number;
}

export interface ImportArgs {
  /** Absent: the slug the project had. */
  readonly slug?: string;
  /** Replace the project of this id if there is one; absent refuses it. */
  readonly replace?: boolean;
}
