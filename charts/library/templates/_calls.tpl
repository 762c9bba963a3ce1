{{/*
Whom one service calls, as YAML: variable → {to, listener, url, value, port, isHere}. Both its environment and its NetworkPolicy are made from
this, so a service can reach what it is told of and nothing else. A callee that this release does not run has the address of its block.
*/}}
{{- define "iterate-library.calls" -}}
{{- $scope := . -}}
{{- $calls := dict -}}
{{- range $variable, $call := .facts.calls -}}
{{- $_ := set $calls $variable $call -}}
{{- end -}}
{{- if .facts.traced -}}
{{- $_ := set $calls "OTEL_EXPORTER_OTLP_ENDPOINT" (dict "to" "telemetry" "listener" "otlp-grpc") -}}
{{- end -}}
{{- range $variable, $call := $calls -}}
{{- $callee := index $scope.table $call.to -}}
{{- $values := index $scope.root.Values $callee.values -}}
{{- $port := (index $callee.listeners $call.listener).port -}}
{{- $url := printf "http://%s-%s:%d" (include "iterate-library.fullname" $scope.root) $call.to (int $port) -}}
{{- if not $values.enabled -}}
{{- $url = ternary $values.httpUrl $values.url (eq $call.listener "http") -}}
{{- if eq $call.listener "otlp-grpc" -}}
{{- $url = $scope.root.Values.tracing.endpoint -}}
{{- end -}}
{{- $port = include "iterate-library.urlPort" $url -}}
{{- end -}}
{{- if $url }}
{{ $variable }}:
  to: {{ $call.to }}
  listener: {{ $call.listener }}
  url: {{ $url }}
  value: {{ printf ($call.format | default "%s") $url }}
  port: {{ $port }}
  isHere: {{ $values.enabled }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of an http or https URL, spelt or implied. */}}
{{- define "iterate-library.urlPort" -}}
{{- $parts := urlParse . -}}
{{- $spelt := regexFind ":[0-9]+$" $parts.host | trimPrefix ":" -}}
{{- $spelt | default (ternary "443" "80" (eq $parts.scheme "https")) -}}
{{- end -}}
