{{- define "nomemory.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nomemory.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nomemory.labels" -}}
{{ include "nomemory.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "nomemory.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* Fail during rendering, with the name of the value, instead of at the server's startup. */ -}}
{{- define "nomemory.check-credentials" -}}
{{- $otherCredentials := or .Values.settings.NOMEMORY_JWT_JWKS .Values.settings.NOMEMORY_TLS_IDENTITIES -}}
{{- if not (or .Values.keys.existingSecret $otherCredentials .Values.envFrom) -}}
{{- fail "keys.existingSecret is required: the name of a secret whose entry keys.json is a file written by `nomemory keys` (docs/deployment.md)." -}}
{{- end -}}
{{- if not (or .Values.tls.existingSecret .Values.tls.insecurePlaintext) -}}
{{- fail "tls.existingSecret is required: the name of a secret of the type kubernetes.io/tls. If a service mesh terminates TLS, set tls.insecurePlaintext instead." -}}
{{- end -}}
{{- end -}}

{{- /* gRPC health check. The gRPC probe of the kubelet does not support TLS; with TLS, a program in the pod runs the check. */ -}}
{{- define "nomemory.health" -}}
{{- if .Values.tls.existingSecret -}}
exec:
  command: [python, -m, nomemory.server.runtime.healthcheck]
{{- else -}}
grpc: {port: 7700}
{{- end }}
timeoutSeconds: 10
{{- end -}}

{{- /* Reject settings that are both in `settings` and in a value of their own. */ -}}
{{- define "nomemory.check-settings" -}}
{{- range $name, $value := dict "NOMEMORY_DATABASE_URL" .Values.database.existingSecret "NOMEMORY_QDRANT_URL" .Values.qdrant.url -}}
{{- if and $value (hasKey $.Values.settings $name) -}}
{{- fail (printf "settings: remove %s, because another value sets it" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nomemory.topology-spread" -}}
- {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
{{- end -}}
