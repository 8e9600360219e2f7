package distro

import (
	"testing"

	"quiesce/test/node"
)

// flatcar's unit reads the config of its read-only /usr, unless its environment names another one.
const flatcar = `[Unit]
After=network.target dbus.service
StartLimitIntervalSec=0
[Service]
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
Environment=CONTAINERD_CONFIG=/usr/share/containerd/config.toml
ExecStartPre=-/bin/mount --bind -o ro /usr/share/containerd /usr/share/containerd
ExecStart=/usr/local/bin/containerd --config ${CONTAINERD_CONFIG}
[Install]
WantedBy=multi-user.target
`

// TestConfig_c on Flatcar: a config on a read-only disk, which the unit is told to read in another place.
func TestConfig_c_Flatcar(t *testing.T) {
	t.Parallel()
	layout{
		profile: "flatcar", own: []string{"/usr/share/containerd", "/etc/containerd", "/etc/systemd/system/containerd.service.d"},
		restarts: "systemctl restart containerd.service", gone: []string{"/etc/containerd"},
		node: node.Config{
			Unit: "containerd.service", NoConfig: true,
			Files: map[string]node.File{
				"/etc/os-release":                        {Content: "NAME=\"Flatcar Container Linux by Kinvolk\"\nID=flatcar\nID_LIKE=coreos\n"},
				"/etc/systemd/system/containerd.service": {Content: flatcar},
				"/usr/share/containerd/config.toml":      {Content: "version = 3\n" + tables},
			},
		},
	}.through(t)
}
