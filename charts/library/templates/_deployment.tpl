{{/*
One service as a Deployment under the "restricted" Pod Security standard. A rollout adds one pod at a time and takes none away before
the new one is ready. When a pod goes, it waits until no address list names it any more, then drains within its bound.
*/}}
{{- define "iterate-library.deployment" -}}
{{- $preStopSeconds := 5 -}}
{{- $slackSeconds := 10 -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "iterate-library.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "iterate-library.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "iterate-library.selector" . | nindent 8 }}
        {{- include "iterate-library.releaseLabels" .root | nindent 8 }}
      annotations:
        # New variables make new pods.
        checksum/config: {{ include "iterate-library.configData" . | sha256sum }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "iterate-library.name" . }}
      automountServiceAccountToken: false
      # Otherwise every Service of the namespace would be named in the environment, also beside untrusted code.
      enableServiceLinks: false
      # The pod's own first process then reaps what children of killed children leave behind; Node does not.
      shareProcessNamespace: true
      terminationGracePeriodSeconds: {{ add .values.drainSeconds $preStopSeconds $slackSeconds }}
      {{- with .values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "iterate-library.selector" $ | nindent 14 }}
        {{- end }}
      {{- if .facts.connections }}
      initContainers:
        - name: migrate
          args: ["migrate"]
          {{- include "iterate-library.container" . | nindent 10 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          {{- with .facts.command }}
          command: {{ toJson . }}
          {{- end }}
          ports:
            {{- range $name, $listener := .facts.listeners }}
            - name: {{ $name }}
              containerPort: {{ $listener.port }}
              protocol: TCP
            {{- end }}
          # Nothing but the process itself: a dependency that is away must not restart it.
          startupProbe:
            httpGet: {path: /livez, port: admin}
            periodSeconds: 2
            failureThreshold: 45
            timeoutSeconds: 2
          livenessProbe:
            httpGet: {path: /livez, port: admin}
            periodSeconds: 10
            failureThreshold: 6
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: admin}
            periodSeconds: 5
            failureThreshold: 2
            timeoutSeconds: 5
          lifecycle:
            preStop:
              exec: {command: ["sleep", "{{ $preStopSeconds }}"]}
          {{- include "iterate-library.container" . | nindent 10 }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: {{ .values.tmpSize }}
        - name: credentials
          projected:
            # 0440: the pod's group reads, nobody writes.
            defaultMode: 288
            sources:
              - secret:
                  name: {{ .root.Values.trustedKeys.existingSecret | default (printf "%s-trusted-keys" (include "iterate-library.fullname" .root)) }}
                  items:
                    - {key: trusted-keys.json, path: trusted-keys.json}
              {{- with include "iterate-library.files" . | fromYaml }}
              - secret:
                  name: {{ include "iterate-library.secret" $ }}
                  items:
                    {{- range $key := values . | sortAlpha }}
                    - {key: {{ $key }}, path: {{ $key }}}
                    {{- end }}
              {{- end }}
{{- end -}}

{{/* What the service and its migration have in common. */}}
{{- define "iterate-library.container" -}}
image: {{ include "iterate-library.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
envFrom:
  - configMapRef:
      name: {{ include "iterate-library.name" . }}
{{- with include "iterate-library.secretVariables" . | fromYaml }}
env:
  {{- range $variable, $secret := . }}
  - name: {{ $variable }}
    valueFrom:
      secretKeyRef:
        name: {{ include "iterate-library.secret" $ }}
        key: {{ $secret.key }}
        {{- if $secret.optional }}
        optional: true
        {{- end }}
  {{- end }}
{{- end }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
volumeMounts:
  - name: tmp
    mountPath: /tmp
  - name: credentials
    mountPath: /etc/iterate
    readOnly: true
{{- end -}}
