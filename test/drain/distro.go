package drain

import (
	"context"
	"fmt"
	"strings"

	"quiesce/test/lab"
)

// distro is a distribution's way to run containerd: its units and paths, with the node's containerd as its own.
type distro struct {
	files  map[string]string
	root   string // of containerd
	socket string // as seen from /run/containerd
	units  []string
	stop   string // script
}

const kubelite = "snap.microk8s.daemon-kubelite.service"

// microk8s is two units of a snap; kubelite is a stand-in. Its stop does what microk8s-stop.wrapper does: kubelite is
// stopped, whatever runs then is paused and killed, and then the rest is stopped.
func microk8s() distro {
	const common, data = "/var/snap/microk8s/common", "/var/snap/microk8s/current"
	return distro{
		files: map[string]string{
			"/snap/microk8s/current/run-containerd-with-args": "#!/bin/sh\nset -e\ncp " + data + "/args/containerd-template.toml " + data + "/args/containerd.toml\n" +
				"exec /usr/local/bin/containerd --config " + data + "/args/containerd.toml --root " + common + "/var/lib/containerd --state " +
				common + "/run/containerd --address " + common + "/run/containerd.sock\n",
			"/etc/systemd/system/snap.microk8s.daemon-containerd.service": "[Unit]\nAfter=network.target dbus.service\n[Service]\n" +
				"ExecStart=/snap/microk8s/current/run-containerd-with-args\nType=notify\nDelegate=yes\nKillMode=process\nRestart=always\nTimeoutStopSec=30\n" +
				"[Install]\nWantedBy=multi-user.target\n",
			"/etc/systemd/system/" + kubelite:       "[Service]\nExecStart=/bin/sleep infinity\nTimeoutStopSec=30\n[Install]\nWantedBy=multi-user.target\n",
			data + "/args/containerd-template.toml": "",
		},
		root: common + "/var/lib/containerd", socket: "../../var/snap/microk8s/common/run/containerd.sock",
		units: []string{"snap.microk8s.daemon-containerd.service", kubelite},
		stop:  "systemctl stop " + kubelite + "\n" + pauseAndKill + "systemctl stop " + kubelite + " snap.microk8s.daemon-containerd",
	}
}

// k3s is one unit whose program runs containerd as its child, and is the kubelet: /run/kubelet is there while it lives.
func k3s() distro {
	const agent = "/var/lib/rancher/k3s/agent"
	const config = agent + "/etc/containerd/config.toml"
	return distro{
		files: map[string]string{
			"/usr/local/bin/k3s": "#!/bin/sh\ncp " + config + ".in " + config + "\n" +
				"containerd -c " + config + " -a /run/k3s/containerd/containerd.sock --state /run/k3s/containerd --root " + agent + "/containerd & child=$!\n" +
				"trap 'rm -f /run/kubelet; kill $child; wait $child; exit 0' TERM\n" +
				"until crictl info >/dev/null 2>&1; do sleep 0.1; done\ntouch /run/kubelet; systemd-notify --ready\nwait $child\n",
			"/etc/systemd/system/k3s.service": "[Unit]\nAfter=network-online.target dbus.service\n[Service]\nExecStart=/usr/local/bin/k3s\n" +
				"Type=notify\nNotifyAccess=all\nDelegate=yes\nKillMode=process\nRestart=always\nRestartSec=5s\nTimeoutStartSec=0\n[Install]\nWantedBy=multi-user.target\n",
			config + ".in": "",
		},
		root: agent + "/containerd", socket: "../k3s/containerd/containerd.sock",
		units: []string{"k3s.service"}, stop: "systemctl stop k3s",
	}
}

// install turns a node into one of the distribution, and puts quiesce on it.
func (d distro) install(ctx context.Context, l *lab.Lab) error {
	config, err := l.ReadFile("/etc/containerd/config.toml")
	if err != nil {
		return err
	}
	for file, text := range d.files {
		if text == "" {
			text = string(config)
		}
		if err := l.WriteFile(file, []byte(text), 0o755); err != nil {
			return err
		}
	}
	_, err = script(ctx, l, fmt.Sprintf(`set -e
systemctl disable --now containerd
rm -f $(systemctl show -P FragmentPath containerd) /etc/containerd/config.toml
mkdir -p %[1]s /var/snap/microk8s/common/run /run/containerd
mount --bind /var/lib/containerd %[1]s
ln -sfn %[2]s /run/containerd/containerd.sock
systemctl daemon-reload
systemctl enable --now %[3]s`, d.root, d.socket, strings.Join(d.units, " ")))
	if err != nil {
		return err
	}
	if err := l.WaitCRI(ctx); err != nil {
		return err
	}
	if _, err := l.Installer(ctx, "host"); err != nil {
		return err
	}
	_, err = script(ctx, l, "systemctl restart quiesce")
	return err
}
