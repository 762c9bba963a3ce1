/**
 * Preload of every service: `node --import @iterate-platform/service/otel-register main.js`. Registers the import hook that
 * instrumentation of ES modules needs, starts telemetry, and lets the service's imports begin only when the hook is in place. Does
 * nothing, and imports nothing, while OTEL_EXPORTER_OTLP_ENDPOINT is empty.
 */
import { register } from "node:module";

const endpoint = process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "";

if (endpoint !== "") {
  const { createAddHookMessageChannel } = await import("import-in-the-middle");
  const { registerOptions, waitForAllMessagesAcknowledged } = createAddHookMessageChannel();
  register("import-in-the-middle/hook.mjs", import.meta.url, registerOptions);
  const [{ startTelemetry }, { setTelemetry }, { uuidv7 }] = await Promise.all([
    import("./otel.js"),
    import("./telemetry.js"),
    import("./ids.js"),
  ]);
  setTelemetry(startTelemetry({ service: serviceName(), endpoint, sampleRatio: sampleRatio(), instanceId: uuidv7() }));
  await waitForAllMessagesAcknowledged();
}

/** OTEL_SERVICE_NAME, else the folder below `services/` that the main module is in. */
function serviceName(): string {
  const named = process.env["OTEL_SERVICE_NAME"] ?? "";
  return named !== "" ? named : (/[\\/]services[\\/]([^\\/]+)[\\/]/.exec(process.argv[1] ?? "")?.[1] ?? "iterate");
}

/** A malformed share is not worth refusing to start: all traces are kept. */
function sampleRatio(): number {
  const ratio = Number(process.env["OTEL_TRACES_SAMPLER_ARG"] || "1");
  return ratio >= 0 && ratio <= 1 ? ratio : 1;
}
