package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// InstallerNamespace is where the example Jobs of manifests/ run.
const InstallerNamespace = "kube-system"

// InstallerJobs are the Jobs of manifests/installer-job.yaml for a handler: HANDLER-install, and HANDLER-live that waits for
// the result. Only the handler and the image are others.
func InstallerJobs(ctx context.Context, handler string) (string, error) {
	kit, err := node.Prepare(ctx)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(kit.Module(), "manifests", "installer-job.yaml"))
	if err != nil {
		return "", fmt.Errorf("read example: %w", err)
	}
	y := strings.NewReplacer("example.invalid/spin-installer:v2", lab.InstallerImage, "spin-v2", handler).Replace(string(data))
	if strings.Contains(y, "example.invalid") {
		return "", fmt.Errorf("manifests/installer-job.yaml names another image than example.invalid/spin-installer:v2")
	}
	var jobs []string
	for doc := range strings.SplitSeq(y, "\n---\n") {
		if strings.Contains(doc, "kind: Job\n") {
			jobs = append(jobs, doc)
		}
	}
	return strings.Join(jobs, "\n---\n"), nil
}

// RuntimeClass is that of a handler, called like it: its pods go only where the handler's label is.
func RuntimeClass(handler string) string {
	return fmt.Sprintf(`
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: { name: %s }
handler: %[1]s
scheduling: { nodeSelector: { "feature.node.kubernetes.io/quiesce-handler.%[1]s": "true" } }
`, handler)
}

// UninstallJob removes a handler; the Job is called name.
func UninstallJob(name, handler string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: { name: %s, namespace: %s }
spec:
  backoffLimit: 2
  template:
    metadata: { labels: { quiesce.internal/installer: "true" } }
    spec:
      restartPolicy: Never
      nodeName: %s
      containers:
        - name: uninstall
          image: %s
          args: [uninstall, --handler, %s]
          env:
            - { name: POD_NAMESPACE, valueFrom: { fieldRef: { fieldPath: metadata.namespace } } }
            - { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
            - { name: POD_UID, valueFrom: { fieldRef: { fieldPath: metadata.uid } } }
          securityContext: { runAsUser: 0, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
          volumeMounts: [{ name: inbox, mountPath: /var/lib/quiesce/inbox }]
      volumes: [{ name: inbox, hostPath: { path: /var/lib/quiesce/inbox, type: Directory } }]
`, name, InstallerNamespace, NodeName, lab.InstallerImage, handler)
}

// PodYAML is a pod of one container that runs a shell script, never restarted. class is its RuntimeClass; without one
// it is the default handler's.
func PodYAML(name, class, script string) string {
	if class != "" {
		class = "runtimeClassName: " + class
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: { name: %s, namespace: default }
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  %s
  containers:
    - { name: main, image: %q, command: [/bin/sh, -c, %q] }
`, name, class, node.BusyboxImage, script)
}
