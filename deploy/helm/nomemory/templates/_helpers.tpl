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

{{- /* A pod's address is reached by others: the server would refuse to start, and says less about the chart. */ -}}
{{- define "nomemory.protected" -}}
{{- $others := or .Values.settings.NOMEMORY_JWT_JWKS .Values.settings.NOMEMORY_TLS_IDENTITIES -}}
{{- if not (or .Values.keys.existingSecret $others .Values.envFrom) -}}
{{- fail "Set keys.existingSecret: a secret with the file of `nomemory keys` as keys.json (docs/deployment.md)." -}}
{{- end -}}
{{- if not (or .Values.tls.existingSecret .Values.tls.insecurePlaintext) -}}
{{- fail "Set tls.existingSecret: a secret of the type kubernetes.io/tls. Where a mesh ends TLS, tls.insecurePlaintext." -}}
{{- end -}}
{{- end -}}

{{- /* gRPC's health. The kubelet's own probe of it knows no TLS: then a program in the pod asks. */ -}}
{{- define "nomemory.health" -}}
{{- if .Values.tls.existingSecret -}}
exec:
  command: [python, -m, nomemory.server.runtime.healthcheck]
{{- else -}}
grpc: {port: 7700}
{{- end }}
timeoutSeconds: 10
{{- end -}}

{{- /* Of all settings one may be named in two places: the values' own, and `settings`. */ -}}
{{- define "nomemory.named-once" -}}
{{- range $name, $value := dict "NOMEMORY_DATABASE_URL" .Values.log.existingSecret "NOMEMORY_QDRANT_URL" .Values.qdrant.url -}}
{{- if and $value (hasKey $.Values.settings $name) -}}
{{- fail (printf "%s is in settings, and has a value of its own: name it once." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nomemory.spread" -}}
- {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
{{- end -}}
