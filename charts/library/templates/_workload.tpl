{{/* Everything Kubernetes needs to run one service; nothing when its block says `enabled: false`. */}}
{{- define "iterate-library.workload" -}}
{{- if .values.enabled }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "iterate-library.metadata" . | nindent 2 }}
automountServiceAccountToken: false
---
{{ include "iterate-library.config" . }}
---
{{ include "iterate-library.deployment" . }}
{{- include "iterate-library.services" . }}
{{- if .root.Values.networkPolicy.enabled }}
---
{{ include "iterate-library.networkPolicy" . }}
{{- end }}
{{- end }}
{{- end -}}
