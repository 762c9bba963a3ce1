{{/*
The Services of one service: a headless one for what other services call, whose clients spread their calls over all pods themselves,
and one with an address for what the world calls.
*/}}
{{- define "iterate-library.services" -}}
{{- $internal := list -}}
{{- $public := list -}}
{{- range $name, $listener := .facts.listeners -}}
{{- if $listener.isPublic -}}
{{- $public = append $public $name -}}
{{- else if ne $name "admin" -}}
{{- $internal = append $internal $name -}}
{{- end -}}
{{- end -}}
{{- if $internal }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "iterate-library.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  {{- include "iterate-library.servicePorts" (merge (dict "names" $internal) .) | nindent 2 }}
{{- end }}
{{- if $public }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "iterate-library.metadata" (merge (dict "name" (printf "%s-public" .name)) .) | nindent 2 }}
  {{- with .values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .values.service.type }}
  {{- include "iterate-library.servicePorts" (merge (dict "names" $public) .) | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "iterate-library.servicePorts" -}}
selector:
  {{- include "iterate-library.selector" . | nindent 2 }}
ports:
  {{- range $name := .names }}
  {{- $listener := index $.facts.listeners $name }}
  - name: {{ $name }}
    port: {{ $listener.port }}
    targetPort: {{ $name }}
    # Spelt out: server-side apply merges ports by number and protocol.
    protocol: TCP
    appProtocol: {{ $listener.isGrpc | default false | ternary "kubernetes.io/h2c" "http" }}
  {{- end }}
{{- end -}}
