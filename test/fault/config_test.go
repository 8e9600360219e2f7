package fault_test

import (
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// legacy is a containerd whose config is edited in place.
const legacy = "1.7.35"

// TestConfig_e_InPlace: the config that is edited in place lies on a disk that is full or read-only, or is immutable itself.
// It stays wholly old, the change waits, and at last every byte is the original one.
func TestConfig_e_InPlace(t *testing.T) {
	t.Parallel()
	ctx, l := lab.New(t, lab.Options{Name: "config-e", Quiet: 300 * time.Millisecond, Node: node.Config{Containerd: legacy}})
	sh(ctx, t, l, `mkdir -p /opt/quiesce/shims; cp -a /etc/containerd /root/c; mount -t tmpfs -o size=256k none /etc/containerd; cp -a /root/c/. /etc/containerd/`)
	original := files(ctx, t, l)
	troubles := []trouble{
		full("full", "/etc/containerd"),
		readOnly("ro", "/etc/containerd"),
		{"immutable", "chattr +i /etc/containerd/config.toml", "chattr -i /etc/containerd/config.toml", "operation not permitted", nil},
		{"immutable-dir", "chattr +i /etc/containerd", "chattr -i /etc/containerd", "operation not permitted", nil},
	}
	for _, f := range troubles {
		f.atApply(ctx, t, l)
	}
	for _, f := range troubles {
		_, err := l.Installer(ctx, "uninstall", "--handler", "apply-"+f.name)
		check(t, err)
	}
	for _, f := range troubles {
		wantPhase(ctx, t, l, "apply-"+f.name, "removed")
	}
	if now := files(ctx, t, l); now != original {
		t.Errorf("containerd's files are\n%s\nwere\n%s", now, original)
	}
}
