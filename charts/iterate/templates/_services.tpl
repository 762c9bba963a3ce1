{{/*
The services as a table: what each runs, serves, is told and holds. A new service is a new row here and a block of its name in the
values. Columns: values (its block), command (in place of the image's own), connections (to its database, at most, of one pod), broker
(has a user there), signs (has a key for calls to others), traced (sends its spans and logs to telemetry), listeners, calls (variable →
callee and listener, whether it may be missing, and what its address stands in), files and secrets (variable → key of its Secret), env (further variables).
*/}}
{{- define "iterate.services" -}}
ingress:
  values: ingress
  connections: 4
  signs: true
  traced: true
  listeners:
    public-http: {variable: PUBLIC_HTTP_LISTEN, port: 7400, isPublic: true}
    public-grpc: {variable: PUBLIC_GRPC_LISTEN, port: 7401, isPublic: true, isGrpc: true}
    admin: {variable: ADMIN_LISTEN, port: 7453}
  calls:
    CONTEXT_URL: {to: context, listener: grpc}
    BUNDLER_URL: {to: bundler, listener: grpc}
    BUNDLER_HTTP_URL: {to: bundler, listener: http}
    RUNNER_HTTP_URL: {to: runner, listener: http}
    TELEMETRY_URL: {to: telemetry, listener: grpc, isOptional: true}
  files:
    ITERATE_ADMIN_TOKEN_FILE: admin-token
  env:
    PUBLIC_BASE_URL: {{ .Values.publicBaseUrl | quote }}
    PROJECT_BASE: {{ .Values.projectBase | quote }}
    # Pages of all projects on one origin are for one machine only: here nobody reaches them.
    PROJECT_LISTEN: "127.0.0.1:7402"
context:
  values: context
  connections: {{ index .Values.context.config "DATABASE_POOL_MAX" | default 8 | int }}
  broker: true
  signs: true
  traced: true
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7410, isGrpc: true}
    admin: {variable: ADMIN_LISTEN, port: 7460}
  calls:
    CAPABILITY_PROVIDERS: {to: runner, listener: grpc, isOptional: true, format: "runner=%s"}
  env:
    PUBLIC_BASE_URL: {{ .Values.publicBaseUrl | quote }}
    PROJECT_BASE: {{ .Values.projectBase | quote }}
  files:
    ITERATE_SECRET_KEYS: secret-keys.json
  secrets:
    CONTEXT_SHARDS: {key: context-shards, optional: true}
runner:
  values: runner
  # Six, and two for the leases alone.
  connections: 8
  broker: true
  signs: true
  traced: true
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7411, isGrpc: true}
    http: {variable: HTTP_LISTEN, port: 7441}
    admin: {variable: ADMIN_LISTEN, port: 7461}
  calls:
    CONTEXT_URL: {to: context, listener: grpc}
    BUNDLER_URL: {to: bundler, listener: grpc}
    ISOLATE_URL: {to: runner-isolate, listener: grpc}
    ISOLATE_HTTP_URL: {to: runner-isolate, listener: http}
runner-isolate:
  values: runnerIsolate
  command: [node, /app/services/runner/dist/isolate-main.js]
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7412, isGrpc: true}
    http: {variable: HTTP_LISTEN, port: 7442}
    admin: {variable: ADMIN_LISTEN, port: 7462}
bundler:
  values: bundler
  connections: 4
  signs: true
  traced: true
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7413, isGrpc: true}
    http: {variable: HTTP_LISTEN, port: 7443}
    admin: {variable: ADMIN_LISTEN, port: 7463}
  calls:
    CONTEXT_URL: {to: context, listener: grpc}
    BUILD_WORKER_URL: {to: build-worker, listener: grpc}
build-worker:
  values: buildWorker
  command: [node, /app/services/bundler/dist/worker-main.js]
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7415, isGrpc: true}
    admin: {variable: ADMIN_LISTEN, port: 7465}
telemetry:
  values: telemetry
  connections: 2
  signs: true
  traced: true
  listeners:
    grpc: {variable: GRPC_LISTEN, port: 7414, isGrpc: true}
    otlp-grpc: {variable: OTLP_GRPC_LISTEN, port: 4317, isGrpc: true}
    otlp-http: {variable: OTLP_HTTP_LISTEN, port: 4318}
    admin: {variable: ADMIN_LISTEN, port: 7464}
{{- end -}}
