{{/*
Who may reach one service and whom it may reach. Callers and callees come from the table, so an edge exists when a service is told of
another and not otherwise; a service that calls nobody resolves no names either.
*/}}
{{- define "iterate-library.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $calls := include "iterate-library.calls" . | fromYaml -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "iterate-library.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "iterate-library.selector" . | nindent 6 }}
  policyTypes: ["Ingress", "Egress"]
  {{- $ingress := list }}
  {{- range $name, $caller := .table }}
  {{- $scope := dict "root" $.root "table" $.table "name" $name "facts" $caller "values" (index $.root.Values $caller.values) }}
  {{- if $scope.values.enabled }}
  {{- $ports := list }}
  {{- range $call := include "iterate-library.calls" $scope | fromYaml }}
  {{- if eq $call.to $.name }}
  {{- $ports = append $ports (dict "port" $call.listener "protocol" "TCP") }}
  {{- end }}
  {{- end }}
  {{- if $ports }}
  {{- $peer := dict "podSelector" (dict "matchLabels" (include "iterate-library.selector" $scope | fromYaml)) }}
  {{- $ingress = append $ingress (dict "from" (list $peer) "ports" $ports) }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- range $name, $listener := .facts.listeners }}
  {{- if $listener.isPublic }}
  {{- $rule := dict "ports" (list (dict "port" $name "protocol" "TCP")) }}
  {{- with $policy.publicFrom }}{{- $_ := set $rule "from" . }}{{- end }}
  {{- $ingress = append $ingress $rule }}
  {{- end }}
  {{- end }}
  {{- with $policy.metricsFrom }}
  {{- $ingress = append $ingress (dict "from" . "ports" (list (dict "port" "admin" "protocol" "TCP"))) }}
  {{- end }}
  ingress: {{- include "iterate-library.rules" (concat $ingress .values.extraIngress) }}
  {{- $egress := list }}
  {{- range $call := $calls }}
  {{- $rule := dict "ports" (list (dict "port" (int $call.port) "protocol" "TCP")) }}
  {{- if $call.isHere }}
  {{- $callee := dict "root" $.root "name" $call.to }}
  {{- $_ := set $rule "to" (list (dict "podSelector" (dict "matchLabels" (include "iterate-library.selector" $callee | fromYaml)))) }}
  {{- end }}
  {{- $egress = append $egress $rule }}
  {{- end }}
  {{- if .facts.connections }}
  {{- $egress = append $egress (include "iterate-library.egressTo" $policy.postgres | fromYaml) }}
  {{- end }}
  {{- if .facts.broker }}
  {{- $egress = append $egress (include "iterate-library.egressTo" $policy.nats | fromYaml) }}
  {{- end }}
  {{- if $egress }}
  {{- $egress = append $egress (dict "ports" (list (dict "port" 53 "protocol" "UDP") (dict "port" 53 "protocol" "TCP"))) }}
  {{- end }}
  egress: {{- include "iterate-library.rules" (concat $egress .values.extraEgress) }}
{{- end -}}

{{- define "iterate-library.rules" -}}
{{- if . -}}
{{- toYaml . | nindent 4 -}}
{{- else }} []
{{- end -}}
{{- end -}}

{{/* A rule to {to, port} of the values; an empty `to` is any address. */}}
{{- define "iterate-library.egressTo" -}}
ports:
  - {port: {{ .port }}, protocol: TCP}
{{- with .to }}
to:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Pods of the release that no other policy speaks of reach nothing and are reached by nothing. */}}
{{- define "iterate-library.defaultDeny" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "iterate-library.fullname" . }}-default-deny
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "iterate-library.releaseSelector" . | nindent 4 }}
    {{- include "iterate-library.releaseLabels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "iterate-library.releaseSelector" . | nindent 6 }}
  policyTypes: ["Ingress", "Egress"]
{{- end -}}
