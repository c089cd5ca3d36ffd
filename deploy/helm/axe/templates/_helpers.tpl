{{/* The beginning of all names: the release, and axe if the release lacks it. */}}
{{- define "axe.name" -}}
{{- if contains "axe" .Release.Name }}{{ .Release.Name | trunc 30 | trimSuffix "-" }}{{ else }}{{ printf "%s-axe" (.Release.Name | trunc 26 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels that select pods. They never change. */}}
{{- define "axe.selector" -}}
app.kubernetes.io/name: axe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "axe.labels" -}}
{{ include "axe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "axe.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The security of a pod: the profile "restricted" of Kubernetes. The group owns
the files of secrets. */}}
{{- define "axe.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "axe.container" -}}
image: {{ include "axe.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The variables of the connection. */}}
{{- define "axe.bus" -}}
- {name: NATS_URL, value: {{ .Values.nats.url | quote }}}
- {name: NATS_CA, value: /etc/axe/bus/ca.pem}
{{- end }}

{{/* The places that a container writes to, and its part of the secret of the
bus. The argument is a list: the root, and the name of the creds file. */}}
{{- define "axe.volumes" -}}
- name: tmp
  emptyDir: {}
- name: state
  emptyDir: {}
- name: bus
  secret:
    secretName: {{ (index . 0).Values.nats.secret }}
    defaultMode: 0440
    items:
      - {key: {{ index . 1 }}, path: {{ index . 1 }}}
      - {key: ca.pem, path: ca.pem}
{{- end }}

{{- define "axe.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: state, mountPath: /var/lib/axe}
- {name: bus, mountPath: /etc/axe/bus, readOnly: true}
{{- end }}
