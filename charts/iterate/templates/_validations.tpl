{{/*
What the schema cannot see: values that are each well-formed and together unsafe. All of them are said at once, each as a sentence that
names the value and what to do.
*/}}
{{- define "iterate.validations" -}}
{{- $problems := list -}}
{{- $table := include "iterate.services" . | fromYaml -}}

{{- if .Values.ingress.enabled -}}
{{- $host := (urlParse .Values.publicBaseUrl).hostname | lower | trimSuffix "." -}}
{{- $projects := regexReplaceAll ":[0-9]+$" .Values.projectBase "" | lower | trimSuffix "." -}}
{{- if not .Values.publicBaseUrl -}}
{{- $problems = append $problems "publicBaseUrl is not set; set it to the address of the platform as people reach it, e.g. https://iterate.example.com" -}}
{{- end -}}
{{- if not .Values.projectBase -}}
{{- $problems = append $problems "projectBase is not set; set it to a domain of its own for the pages of projects, e.g. iterate-pages.example" -}}
{{- end -}}
{{- if and $host $projects -}}
{{- if or (eq $host $projects) (hasSuffix (printf ".%s" $host) $projects) (hasSuffix (printf ".%s" $projects) $host) -}}
{{- $problems = append $problems (printf "projectBase %s and the host of publicBaseUrl, %s, are equal or one lies below the other, so code of projects would run on the platform's own site; take a registrable domain of its own" (quote .Values.projectBase) (quote $host)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.projectHosts "paths" -}}
{{- $problems = append $problems "projectHosts is \"paths\", which puts all projects on one origin and is for one machine only; set it to none" -}}
{{- end -}}

{{- $connections := 0 -}}
{{- $parts := list -}}
{{- range $name, $facts := $table -}}
{{- $values := index $.Values $facts.values -}}
{{- if $values.enabled -}}
{{- if or (eq $values.image.tag "latest") (eq $.Values.image.tag "latest") -}}
{{- $problems = append $problems (printf "the image tag of %s is \"latest\", which says nothing about what runs; name a version or a digest" $facts.values) -}}
{{- end -}}
{{- if and $values.existingSecret (not $facts.signs) -}}
{{- $problems = append $problems (printf "%s.existingSecret is %s, but %s runs beside untrusted code and holds no credential; leave it empty" $facts.values (quote $values.existingSecret) $name) -}}
{{- end -}}
{{- if and $values.extraEgress (not $facts.signs) -}}
{{- $problems = append $problems (printf "%s.extraEgress is not empty, but %s runs beside untrusted code and calls nobody; leave it empty" $facts.values $name) -}}
{{- end -}}
{{- if $facts.connections -}}
{{- $most := mul $facts.connections (add $values.replicas 1) -}}
{{- $connections = add $connections $most -}}
{{- $parts = append $parts (printf "%s %d" $name $most) -}}
{{- end -}}
{{- range $variable, $call := $facts.calls -}}
{{- $callee := index $.Values (index $table $call.to).values -}}
{{- $field := ternary "httpUrl" "url" (eq $call.listener "http") -}}
{{- if not (or $callee.enabled (index $callee $field) $call.isOptional) -}}
{{- $key := (index $table $call.to).values -}}
{{- $problems = append $problems (printf "%s is not enabled but %s calls it; set %s.%s to where it runs" $key $name $key $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $spare := 20 -}}
{{- if gt $connections (sub .Values.postgres.maxConnections $spare) -}}
{{- $problems = append $problems (printf "the services may open %d connections during a rollout (%s), more than postgres.maxConnections (%d) less %d kept for others; lower replicas or DATABASE_POOL_MAX, or raise max_connections of the server and postgres.maxConnections" $connections (join ", " $parts) (int64 .Values.postgres.maxConnections) $spare) -}}
{{- end -}}

{{- range $name, $url := dict "nats.url" .Values.nats.url "tracing.endpoint" .Values.tracing.endpoint -}}
{{- if contains "@" $url -}}
{{- $problems = append $problems (printf "%s carries credentials, which would stand in a ConfigMap; keep them in the services' Secrets" $name) -}}
{{- end -}}
{{- end -}}

{{- with .Values.runnerIsolate -}}
{{- if .enabled -}}
{{- if eq (index .config "ISOLATE_TENANCY") "shared" -}}
{{- $problems = append $problems "runnerIsolate.config.ISOLATE_TENANCY is \"shared\", which runs code of all projects in one pod and is for one machine only; set it to project" -}}
{{- end -}}
{{- $isolates := index .config "ISOLATE_MEMORY_MIB" | default 4096 | int64 -}}
{{- $needed := add $isolates 512 -}}
{{- if gt $needed (include "iterate.mebibytes" .resources.limits.memory | int64) -}}
{{- $problems = append $problems (printf "runnerIsolate.resources.limits.memory is %s, below the %d MiB that isolates may take (runnerIsolate.config.ISOLATE_MEMORY_MIB) with 512 MiB for their supervisor; it would be killed with all of them" .resources.limits.memory $needed) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.buildWorker -}}
{{- if .enabled -}}
{{- $job := sub (index .config "BUILD_MEMORY_MIB" | default 1280 | int64) 540 -}}
{{- $needed := add (mul $job (index .config "BUILD_MAX_JOBS" | default 2 | int64)) 256 -}}
{{- if gt $needed (include "iterate.mebibytes" .resources.limits.memory | int64) -}}
{{- $problems = append $problems (printf "buildWorker.resources.limits.memory is %s, below the %d MiB that its builds may take together (BUILD_MAX_JOBS, BUILD_MEMORY_MIB); one large build would kill the others" .resources.limits.memory $needed) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.telemetry -}}
{{- if .enabled -}}
{{- $needed := add (div (mul 2 (index .config "TELEMETRY_QUEUE_BYTES" | default 50331648 | int64)) 1048576) 256 -}}
{{- if gt $needed (include "iterate.mebibytes" .resources.limits.memory | int64) -}}
{{- $problems = append $problems (printf "telemetry.resources.limits.memory is %s, below the %d MiB that it may hold while its database is away (TELEMETRY_QUEUE_BYTES)" .resources.limits.memory $needed) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if $problems -}}
{{- fail (printf "these values cannot be deployed:\n- %s" (join "\n- " $problems)) -}}
{{- end -}}
{{- end -}}

{{/* A memory quantity (schema: Mi or Gi) in MiB. */}}
{{- define "iterate.mebibytes" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- mul $number (ternary 1024 1 (hasSuffix "Gi" .)) -}}
{{- end -}}
