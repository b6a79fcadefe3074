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

{{- /* Reject settings that the chart derives from other values, and settings that are secrets. */ -}}
{{- define "nomemory.check-settings" -}}
{{- range $name, $value := include "nomemory.reserved-settings" . | fromYaml -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "settings: remove %s and use %s instead." $name $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Settings that are not allowed in `settings`, with the value that replaces them. */ -}}
{{- define "nomemory.reserved-settings" -}}
NOMEMORY_DATA: persistence
NOMEMORY_DATABASE_URL: database.existingSecret
NOMEMORY_KEY_FILE: serverKey.existingSecret
NOMEMORY_LISTEN: service.ports.grpc
NOMEMORY_HTTP_LISTEN: http.enabled
NOMEMORY_METRICS_LISTEN: metrics.enabled
NOMEMORY_METRICS_TOKEN: metrics.tokenSecret
NOMEMORY_API_KEYS: keys.existingSecret
NOMEMORY_TLS_CERT: tls.existingSecret
NOMEMORY_TLS_KEY: tls.existingSecret
NOMEMORY_INSECURE_PLAINTEXT: tls.insecurePlaintext
NOMEMORY_QDRANT_URL: qdrant.url
NOMEMORY_QDRANT_API_KEY: qdrant.existingSecret
NOMEMORY_QDRANT_SHARD_KEYS: qdrant.shardKeys
NOMEMORY_QDRANT_REPLICATION_FACTOR: qdrant.replicationFactor
NOMEMORY_JWT_SECRET: envFrom with a secret
NOMEMORY_OTLP_HEADERS: envFrom with a secret
NOMEMORY_PREVIOUS_EMBEDDING_API_KEY: envFrom with a secret
{{- end -}}

{{- /* Fail if the NetworkPolicy would block a service that the values configure. */ -}}
{{- define "nomemory.check-egress" -}}
{{- $settings := .Values.settings -}}
{{- $model := or $settings.OPENAI_BASE_URL $settings.NOMEMORY_RECALL_MODEL (eq (toString $settings.NOMEMORY_EMBEDDER) "openai") -}}
{{- $jwks := hasPrefix "http" (toString $settings.NOMEMORY_JWT_JWKS) -}}
{{- $used := dict "database" .Values.database.existingSecret "qdrant" .Values.qdrant.url "model" $model "jwks" $jwks "otlp" $settings.NOMEMORY_OTLP_ENDPOINT -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.extraEgress) -}}
{{- range $name, $value := $used -}}
{{- if and $value (not (index $.Values.networkPolicy.egress $name).enabled) -}}
{{- fail (printf "networkPolicy.egress.%s.enabled must be true: the values configure this service, and the NetworkPolicy would block it. You can instead set networkPolicy.extraEgress, or disable networkPolicy." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nomemory.check-backup" -}}
{{- if and .Values.backup.existingClaim .Values.database.existingSecret -}}
{{- fail "backup.existingClaim is not available with database.existingSecret: back up the PostgreSQL database with its own tools." -}}
{{- end -}}
{{- end -}}

{{- /* Format the value of an environment variable. Numbers from YAML files are floats, which Go prints with an exponent if they are large. */ -}}
{{- define "nomemory.setting" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- printf "%.0f" . | quote -}}
{{- else -}}
{{- quote . -}}
{{- end -}}
{{- end -}}

{{- /* TLS options of scrapes: by default, trust the certificate of the server. */ -}}
{{- define "nomemory.scrape-tls" -}}
{{- $options := .Values.metrics.serviceMonitor.tlsConfig -}}
{{- if not (or $options.serverName $options.insecureSkipVerify) -}}
{{- fail "metrics.serviceMonitor.tlsConfig.serverName is required: a DNS name in the certificate of tls.existingSecret. Scrapes address the pods by IP." -}}
{{- end -}}
{{- if not (or $options.ca $options.caFile $options.insecureSkipVerify) -}}
{{- $options = merge (dict "ca" (dict "secret" (dict "name" .Values.tls.existingSecret "key" "tls.crt"))) $options -}}
{{- end -}}
{{- toYaml $options -}}
{{- end -}}

{{- define "nomemory.topology-spread" -}}
- {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
{{- end -}}
