{{/*
Names and labels. A template that says "of one service" takes a scope: {root: the scope of the chart, table: all services,
name: of this one, facts: its row in the table, values: its block of values}.
*/}}
{{- define "iterate-library.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "iterate-library.name" -}}
{{- include "iterate-library.fullname" .root }}-{{ .name -}}
{{- end -}}

{{/* What selects the pods of the whole release. */}}
{{- define "iterate-library.releaseSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What selects the pods of one service. Selectors of a Deployment never change: nothing else belongs here. */}}
{{- define "iterate-library.selector" -}}
{{ include "iterate-library.releaseSelector" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "iterate-library.releaseLabels" -}}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "iterate-library.metadata" -}}
name: {{ include "iterate-library.name" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "iterate-library.selector" . | nindent 2 }}
  {{- include "iterate-library.releaseLabels" .root | nindent 2 }}
{{- end -}}

{{- define "iterate-library.image" -}}
{{- $image := .values.image -}}
{{- $path := printf "%s/%s" .root.Values.image.registry $image.repository | trimPrefix "/" -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $path $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path ($image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the service's credentials. */}}
{{- define "iterate-library.secret" -}}
{{- .values.existingSecret | default (include "iterate-library.name" .) -}}
{{- end -}}
