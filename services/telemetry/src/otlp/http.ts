/**
 * OTLP over HTTP: `POST /v1/traces`, `/v1/logs` and `/v1/metrics`, protobuf or JSON, plain or gzip. Answers, failures too, come in the
 * encoding of the request, as OTLP asks.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Status } from "@iterate-platform/proto/google/rpc/status";
import { ExportLogsServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import { ExportMetricsServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/metrics/v1/metrics_service";
import { ExportTraceServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { readBody, type HttpHandler } from "@iterate-platform/service/http-server";
import type { Log } from "@iterate-platform/service/log";
import { answerFor, toStatus } from "@iterate-platform/service/status";
import { CodedError, codedError, errorCodes } from "iterate/lib";
import { maxExportBytes } from "../limits.js";
import { logsAnswer, metricsAnswer, tracesAnswer } from "./grpc.js";
import type { Encoding } from "./read-export.js";
import type { Receiver } from "./receiver.js";

/** Requests whose bodies are held at a time, each of at most `maxExportBytes`, packed and unpacked. */
const maxInFlight = 16;
const retryAfterMs = 1_000;

const mediaTypes: Readonly<Record<Encoding, string>> = { protobuf: "application/x-protobuf", json: "application/json" };

interface Answer {
  readonly protobuf: () => Uint8Array;
  readonly json: () => unknown;
}

type Take = (receiver: Receiver, encoding: Encoding, body: Uint8Array) => Answer;

const routes: Readonly<Record<string, Take>> = {
  "/v1/traces": (receiver, encoding, body) => answered(ExportTraceServiceResponse, tracesAnswer(receiver.traces(encoding, body))),
  "/v1/logs": (receiver, encoding, body) => answered(ExportLogsServiceResponse, logsAnswer(receiver.logs(encoding, body))),
  "/v1/metrics": (receiver, encoding, body) =>
    answered(ExportMetricsServiceResponse, metricsAnswer(receiver.metrics(encoding, body))),
};

export function otlpHttpHandler(receiver: Receiver, log: Log): HttpHandler {
  let inFlight = 0;
  return async (request, response) => {
    const path = (request.url ?? "/").split("?")[0]!;
    const take = routes[path];
    if (take === undefined)
      throw codedError("NOT_FOUND", `${path} is not served here; there are ${Object.keys(routes).join(", ")}`);
    if (request.method !== "POST") throw codedError("NOT_A_METHOD", `${request.method} is not served here; OTLP is sent by POST`);
    const encoding = encodingOf(request);
    inFlight += 1;
    try {
      if (inFlight > maxInFlight)
        throw new CodedError("OVERLOADED", `${maxInFlight} requests are being read already; send again later`, { retryAfterMs });
      send(response, encoding, 200, take(receiver, encoding, await unpackedBody(request)));
    } catch (thrown) {
      refuse(request, response, encoding, answerFor(thrown, log, { path }));
    } finally {
      inFlight -= 1;
    }
  };
}

function encodingOf(request: IncomingMessage): Encoding {
  const type = (request.headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase();
  if (type === mediaTypes.protobuf) return "protobuf";
  if (type === mediaTypes.json) return "json";
  throw codedError(
    "INVALID_INPUT",
    `the content type is ${JSON.stringify(type.slice(0, 100))}; send ${mediaTypes.protobuf} or ${mediaTypes.json}`,
  );
}

async function unpackedBody(request: IncomingMessage): Promise<Buffer> {
  const coding = (request.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (coding !== "identity" && coding !== "gzip") {
    throw codedError("INVALID_INPUT", `the content encoding is ${JSON.stringify(coding.slice(0, 100))}; send gzip or none`);
  }
  const body = await readBody(request, maxExportBytes);
  return coding === "gzip" ? unpacked(body) : body;
}

const gunzipped = promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip);

/** Stops at the limit, however much a small body would unpack to. */
async function unpacked(body: Buffer): Promise<Buffer> {
  try {
    return await gunzipped(body, { maxOutputLength: maxExportBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") {
      throw codedError("BATCH_TOO_LARGE", `the body unpacks to more than ${maxExportBytes} bytes; send less at a time`, {
        limit: maxExportBytes,
      });
    }
    throw codedError("INVALID_INPUT", "the body is not gzip, though its content encoding says so");
  }
}

interface MessageType<Message> {
  encode(message: Message): { finish(): Uint8Array };
  toJSON(message: Message): unknown;
}

function answered<Message>(type: MessageType<Message>, message: Message): Answer {
  return { protobuf: () => type.encode(message).finish(), json: () => type.toJSON(message) };
}

function refuse(request: IncomingMessage, response: ServerResponse, encoding: Encoding, error: CodedError): void {
  // What is left of an unread body would be taken for the next request.
  if (!request.complete) response.setHeader("connection", "close");
  if (error.retryable) response.setHeader("retry-after", Math.max(1, Math.ceil((error.retryAfterMs ?? retryAfterMs) / 1_000)));
  const status = toStatus(error);
  // In JSON the details would need their types spelled out; code and message are what a sender can use.
  send(response, encoding, errorCodes[error.code].http, {
    protobuf: () => Status.encode(status).finish(),
    json: () => ({ code: status.code, message: status.message }),
  });
}

function send(response: ServerResponse, encoding: Encoding, status: number, answer: Answer): void {
  const body = encoding === "protobuf" ? answer.protobuf() : Buffer.from(JSON.stringify(answer.json()));
  response.writeHead(status, { "content-type": mediaTypes[encoding], "content-length": body.length });
  response.end(body);
}
