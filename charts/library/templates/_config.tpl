{{/*
The variables of one service that are no secret, as a ConfigMap. Listeners bind every address of the pod: who may reach them is the
NetworkPolicy's to say.
*/}}
{{- define "iterate-library.config" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "iterate-library.metadata" . | nindent 2 }}
data:
  {{- include "iterate-library.configData" . | nindent 2 }}
{{- end -}}

{{- define "iterate-library.configData" -}}
{{- $data := dict -}}
{{- range $name, $listener := .facts.listeners -}}
{{- $_ := set $data $listener.variable (printf "0.0.0.0:%d" (int $listener.port)) -}}
{{- end -}}
{{- range $variable, $call := include "iterate-library.calls" . | fromYaml -}}
{{- $_ := set $data $variable $call.value -}}
{{- end -}}
{{- if .facts.traced -}}
{{- $_ := set $data "OTEL_TRACES_SAMPLER_ARG" .root.Values.tracing.sampleRatio -}}
{{- end -}}
{{- if .facts.connections -}}
{{- $_ := set $data "DATABASE_POOLER" .root.Values.postgres.pooler -}}
{{- end -}}
{{- if .facts.broker -}}
{{- $_ := set $data "NATS_URL" .root.Values.nats.url -}}
{{- end -}}
{{- $_ := set $data "LOG_LEVEL" .root.Values.logLevel -}}
{{- $_ := set $data "DRAIN_MS" (mul 1000 (int64 .values.drainSeconds)) -}}
{{- $_ := set $data "ITERATE_TRUSTED_KEYS_FILE" "/etc/iterate/trusted-keys.json" -}}
{{- range $variable, $key := include "iterate-library.files" . | fromYaml -}}
{{- $_ := set $data $variable (printf "/etc/iterate/%s" $key) -}}
{{- end -}}
{{- range $variable, $value := .facts.env -}}
{{- $_ := set $data $variable $value -}}
{{- end -}}
{{- range $variable, $value := .values.config -}}
{{- $_ := set $data $variable $value -}}
{{- end -}}
{{- range $variable, $value := $data }}
{{ $variable }}: {{ (kindIs "float64" $value | ternary (int64 $value) $value) | toString | quote }}
{{- end -}}
{{- end -}}

{{/* Keys of the service's Secret that it reads as files: variable → key. */}}
{{- define "iterate-library.files" -}}
{{- if .facts.signs }}
ITERATE_SERVICE_KEY_FILE: service-key.json
{{- end }}
{{- range $variable, $key := .facts.files }}
{{ $variable }}: {{ $key }}
{{- end }}
{{- end -}}

{{/* Keys of the service's Secret that it reads as variables: variable → {key, optional}. */}}
{{- define "iterate-library.secretVariables" -}}
{{- if .facts.connections }}
DATABASE_URL: {key: database-url, optional: false}
DATABASE_DIRECT_URL: {key: database-direct-url, optional: {{ eq .root.Values.postgres.pooler "none" }}}
{{- end }}
{{- if .facts.broker }}
NATS_USER: {key: nats-user, optional: {{ not .root.Values.nats.credentials }}}
NATS_PASSWORD: {key: nats-password, optional: {{ not .root.Values.nats.credentials }}}
{{- end }}
{{- range $variable, $secret := .facts.secrets }}
{{ $variable }}: {{ $secret | toJson }}
{{- end }}
{{- end -}}
