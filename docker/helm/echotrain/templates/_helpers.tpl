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

{{- define "echotrain.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The plain port: without TLS, or where both are wanted. */ -}}
{{- define "echotrain.plain" -}}
{{- if or (not .Values.tls.existingSecret) .Values.tls.plain -}}yes{{- end -}}
{{- end -}}

{{- /* The ports for scans, of services and policies. */ -}}
{{- define "echotrain.scanPorts" -}}
{{- if include "echotrain.plain" . }}
- {name: scans, port: 9002, targetPort: scans}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: scans-tls, port: 9003, targetPort: scans-tls}
{{- end }}
{{- end -}}

{{- define "echotrain.options" -}}
{{- if and (include "echotrain.plain" .) (not .Values.options.allow) (not (get .Values.options "insecure")) -}}
{{- fail "nobody may connect: say which networks may use the plain port (options.allow: [10.1.0.0/16]), or give the server a certificate (tls.existingSecret)" -}}
{{- end -}}
{{- $set := dict "bind" "0.0.0.0" -}}
{{- $admin := dict "bind" "0.0.0.0" "port" 9004 "agent_port" 9005 -}}
{{- with .Values.admin.existingSecret -}}
{{- $admin = merge $admin (dict "token_file" "/etc/echotrain-secrets/admin/tokens" "page" $.Values.admin.page) -}}
{{- end -}}
{{- $_ := set $set "admin" $admin -}}
{{- with .Values.tokens.existingSecret -}}
{{- $_ := set $set "token_file" "/etc/echotrain-secrets/clients/tokens" -}}
{{- end -}}
{{- if .Values.tls.existingSecret -}}
{{- $tls := dict "port" 9003 "certificate" "/etc/echotrain-secrets/tls/tls.crt" "key" "/etc/echotrain-secrets/tls/tls.key" "only" (not .Values.tls.plain) -}}
{{- if .Values.tls.clientCa -}}
{{- $_ := set $tls "client_ca" "/etc/echotrain-secrets/tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $set "tls" $tls -}}
{{- end -}}
{{- if .Values.data.existingClaim -}}
{{- if .Values.data.capture -}}
{{- $_ := set $set "capture" (dict "directory" "/var/lib/echotrain/captures") -}}
{{- end -}}
{{- if .Values.data.detached -}}
{{- $_ := set $set "detached" (dict "directory" "/var/lib/echotrain/detached") -}}
{{- end -}}
{{- end -}}
{{- $options := omit (deepCopy .Values.options) "bind" "port" -}}
{{- if not .Values.options.allow -}}
{{- $options = omit $options "allow" -}}
{{- end -}}
{{ toYaml (mergeOverwrite $options $set) }}
{{- end -}}
