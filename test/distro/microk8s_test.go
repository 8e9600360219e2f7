package distro

import (
	"fmt"
	"strings"
	"testing"

	"quiesce/test/node"
)

const microk8sArgs = "/var/snap/microk8s/current/args"

// microk8sWrapper renders the config by sed at each start, and then runs containerd, as the snap's wrapper does
// (microk8s wrappers/run-containerd-with-args).
const microk8sWrapper = `#!/bin/sh
set -e
mkdir -p /var/snap/microk8s/common/run
sed -e 's@${SNAP}@/snap/microk8s/current@g' -e 's@${SNAP_DATA}@/var/snap/microk8s/current@g' -e 's@${RUNTIME}@runc@g' \
    -e 's@${RUNTIME_TYPE}@io.containerd.runc.v2@g' ` + microk8sArgs + `/containerd-template.toml >` + microk8sArgs + `/containerd.toml
exec /usr/local/bin/containerd --config ` + microk8sArgs + `/containerd.toml --root /var/lib/containerd \
    --state /run/microk8s --address /var/snap/microk8s/common/run/containerd.sock
`

// TestConfig_c on MicroK8s: the config is rendered from a template that is edited instead.
func TestConfig_c_MicroK8s(t *testing.T) {
	t.Parallel()
	const unit = "snap.microk8s.daemon-containerd.service"
	template := "# Use config version 3\nversion = 3\noom_score = 0\n" + strings.ReplaceAll(tables, "io.containerd.runc.v2", "${RUNTIME_TYPE}")
	layout{
		profile: "microk8s", own: []string{microk8sArgs + "/containerd-template.toml"}, restarts: "systemctl restart " + unit,
		node: node.Config{
			Unit: unit, Socket: "/var/snap/microk8s/common/run/containerd.sock", NoConfig: true,
			Files: map[string]node.File{
				"/etc/systemd/system/" + unit:                     {Content: fmt.Sprintf(service, "/var/snap/microk8s/common/run", "/snap/microk8s/current/run-containerd-with-args")},
				"/snap/microk8s/current/run-containerd-with-args": {Content: microk8sWrapper, Mode: 0o755},
				microk8sArgs + "/containerd-template.toml":        {Content: template},
			},
		},
	}.through(t)
}
