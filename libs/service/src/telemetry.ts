/** What a process knows of its own telemetry export; filled by the preload (`otel-register`), empty when there is none. */

export interface ExportCounts {
  readonly signal: "traces" | "logs";
  readonly exported: number;
  /** Left out because the queue was full. */
  readonly dropped: number;
  /** Given up because the receiver failed or was too slow. */
  readonly failed: number;
  readonly queued: number;
}

export interface Telemetry {
  counts(): ExportCounts[];
  /** Sends what is queued, for at most `boundMs`, and stops. */
  shutdown(boundMs: number): Promise<void>;
}

let running: Telemetry | null = null;

export function setTelemetry(telemetry: Telemetry): void {
  running = telemetry;
}

/** The process's telemetry, or null when `OTEL_EXPORTER_OTLP_ENDPOINT` is empty or the preload is missing. */
export function telemetry(): Telemetry | null {
  return running;
}
