{{/* What all shapes share of a pod. */}}

{{- define "sessionguard.name" -}}
{{- get (dict "guacd-pod" "guacd" "guacamole-pod" "guacamole" "own-deployment" "sessionguard") .Values.shape -}}
{{- end }}

{{/* A preStop before it, and some minutes for the end itself. */}}
{{- define "sessionguard.grace" -}}
{{- add (mul .Values.drainHours 3600) 600 -}}
{{- end }}

{{- define "sessionguard.locked" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Nobody leaves before the next one is ready. */}}
{{- define "sessionguard.rolling" -}}
type: RollingUpdate
rollingUpdate:
  maxUnavailable: 0
  maxSurge: 1
{{- end }}

{{/* For what would end every tunnel with itself: 12D6 is port 4822, 01 an open connection. */}}
{{- define "sessionguard.waiting" -}}
preStop:
  exec:
    command:
      - sh
      - -c
      - |
        sleep 15
        while grep -qE '^ *[0-9]+: [0-9A-F]+:12D6 [0-9A-F]+:[0-9A-F]+ 01 ' /proc/net/tcp /proc/net/tcp6; do
          sleep 2
        done
{{- end }}

{{- define "sessionguard.container" -}}
{{- $store := .Values.store -}}
- name: sessionguard
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
  {{- with .Values.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- if eq .Values.shape "guacamole-pod" }}
  restartPolicy: Always
  {{- end }}
  args: [serve, --config, /etc/sessionguard/sessionguard.toml]
  {{- if eq $store.kind "postgres" }}
  envFrom:
    - configMapRef:
        name: sessionguard-store
  {{- end }}
  {{- $own := eq .Values.shape "own-deployment" }}
  {{- if or $own (eq $store.kind "postgres") .Values.api.enabled }}
  env:
    {{- if $own }}
    - name: SESSIONGUARD_LISTEN__ADVERTISE
      valueFrom:
        fieldRef: {fieldPath: status.podIP}
    {{- end }}
    {{- if eq $store.kind "postgres" }}
    - name: SESSIONGUARD_DATABASE_PASSWORD
      valueFrom:
        secretKeyRef: {{ toYaml $store.postgres.passwordSecret | nindent 10 }}
    {{- end }}
    {{- if .Values.api.enabled }}
    - {name: SESSIONGUARD_API__LISTEN, value: "0.0.0.0:9822"}
    - {name: SESSIONGUARD_API__TLS_CERT_FILE, value: /etc/sessionguard-api/tls.crt}
    - {name: SESSIONGUARD_API__TLS_KEY_FILE, value: /etc/sessionguard-api/tls.key}
    {{- end }}
  {{- end }}
  ports:
    - {name: guacamole, containerPort: 4822}
    - {name: health, containerPort: 9823}
    {{- if .Values.api.enabled }}
    - {name: api, containerPort: 9822}
    {{- end }}
  startupProbe:
    httpGet: {path: /livez, port: health}
    periodSeconds: 2
    failureThreshold: 60
  readinessProbe:
    httpGet: {path: /readyz, port: health}
    periodSeconds: 5
    timeoutSeconds: 3
  livenessProbe:
    httpGet: {path: /livez, port: health}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  {{- if ne .Values.shape "guacamole-pod" }}
  lifecycle:
    preStop:
      exec:
        command: [sleep, "15"]
  {{- end }}
  resources: {{ toYaml .Values.resources | nindent 4 }}
  securityContext: {{ include "sessionguard.locked" . | nindent 4 }}
  volumeMounts:
    - {name: config, mountPath: /etc/sessionguard, readOnly: true}
    - {name: state, mountPath: /var/lib/sessionguard}
    {{- if .Values.api.enabled }}
    - {name: api-tls, mountPath: /etc/sessionguard-api, readOnly: true}
    {{- end }}
{{- end }}

{{- define "sessionguard.guacd" -}}
{{- $inside := eq .Values.shape "guacd-pod" -}}
- name: guacd
  image: {{ .Values.guacd.image }}
  {{- if $inside }}
  restartPolicy: Always
  command: [/opt/guacamole/sbin/guacd, -f, -b, 127.0.0.1, -l, "4823", -L, info]
  {{- else }}
  command: [/opt/guacamole/sbin/guacd, -f, -b, 0.0.0.0, -l, "4822", -L, info]
  ports:
    - {name: guacd, containerPort: 4822}
  readinessProbe:
    tcpSocket: {port: guacd}
  lifecycle: {{ include "sessionguard.waiting" . | nindent 4 }}
  {{- end }}
  resources: {{ toYaml .Values.guacd.resources | nindent 4 }}
  securityContext:
    runAsUser: 1000
    runAsGroup: 1000
    {{- include "sessionguard.locked" . | nindent 4 }}
  env:
    - {name: HOME, value: /tmp}
  volumeMounts:
    - {name: guacd-tmp, mountPath: /tmp}
{{- end }}

{{- define "sessionguard.guacamole" -}}
- name: guacamole
  image: {{ .Values.guacamole.image }}
  env:
    - {name: GUACD_HOSTNAME, value: 127.0.0.1}
    - {name: GUACD_PORT, value: "4822"}
    {{- with .Values.guacamole.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.guacamole.envFrom }}
  envFrom: {{ toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: http, containerPort: 8080}
  lifecycle: {{ include "sessionguard.waiting" . | nindent 4 }}
  resources: {{ toYaml .Values.guacamole.resources | nindent 4 }}
  securityContext:
    runAsUser: 1001
    runAsGroup: 1001
    allowPrivilegeEscalation: false
    privileged: false
    readOnlyRootFilesystem: false
    capabilities:
      drop: [ALL]
{{- end }}
