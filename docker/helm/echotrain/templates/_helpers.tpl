{{- define "echotrain.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "echotrain.selector" -}}
app.kubernetes.io/name: echotrain
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "echotrain.labels" -}}
{{ include "echotrain.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "echotrain.options" -}}
bind: 0.0.0.0
admin: {bind: 0.0.0.0, port: 9004, agent_port: 9005}
{{ toYaml (omit .Values.options "bind" "port" "admin") }}
{{- end -}}
