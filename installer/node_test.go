package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"quiesce/test/node"
)

// onNode runs commands on a real node.
type onNode struct {
	*testing.T
	n   *node.Node
	ctx context.Context
}

func (o *onNode) run(argv ...string) string {
	o.Helper()
	out, err := o.n.Exec(o.ctx, argv...)
	if err != nil {
		o.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(out)
}

func (o *onNode) property(unit, name string) string {
	o.Helper()
	return o.run("systemctl", "show", "--value", "--property", name, unit)
}

func (o *onNode) want(what, got, want string) {
	o.Helper()
	if got != want {
		o.Errorf("%s: %q, want %q", what, got, want)
	}
}

const (
	bootUnit  = "quiesce-apply-boot.service"
	installer = "/root/programs/quiesce-installer"
)

// TestHostOnNode puts a real node in order while it runs, boots it, and takes quiesce off again.
func TestHostOnNode(t *testing.T) {
	if testing.Short() {
		t.Skip("make unit leaves out what boots a node")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := node.New(t, node.Config{Name: "host", Programs: map[string]string{"./plugin": "/root/programs/quiesce", "./installer": installer}, AllowFailed: []string{bootUnit}})
	o := &onNode{t, n, ctx}
	containerd := o.property("containerd.service", "InvocationID")

	o.run(installer, "host")
	o.want("daemon", o.property("quiesce.service", "ActiveState"), "active")
	o.want("boot unit", o.property(bootUnit, "ActiveState"), "inactive")
	o.want("enabled", o.run("systemctl", "is-enabled", "quiesce.service", bootUnit), "enabled\nenabled")
	o.want("containerd", o.property("containerd.service", "InvocationID"), containerd)

	daemon := o.property("quiesce.service", "InvocationID")
	o.want("the second time", o.run(installer, "host"), "already in order")
	o.want("daemon", o.property("quiesce.service", "InvocationID"), daemon)

	o.run("systemctl", "restart", "containerd.service")
	o.want("boot unit after a restart of containerd", o.property(bootUnit, "ActiveState"), "inactive")
	o.want("its condition", o.property(bootUnit, "ConditionResult"), "no")

	o.boot()
	o.brokenBoot()
	o.run(installer, "host", "--remove")
	o.want("left on disk", o.run("find", "/etc", "/opt", "/usr/local", "/var/lib", "/run", "-xdev", "-name", "*quiesce*"), "")
	o.want("left in systemd", o.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "quiesce*"), "")
	o.want("removed twice", o.run(installer, "host", "--remove"), "nothing to remove")
}

func (o *onNode) reboot() {
	o.Helper()
	if err := o.n.Shutdown(o.ctx); err != nil {
		o.Fatal(err)
	}
	if err := o.n.Start(o.ctx); err != nil {
		o.Fatal(err)
	}
}

// boot: the boot unit runs before containerd, and only then.
func (o *onNode) boot() {
	o.Helper()
	o.reboot()
	o.want("daemon after a boot", o.property("quiesce.service", "ActiveState"), "active")
	o.want("boot unit after a boot", o.property(bootUnit, "ActiveState")+" "+o.property(bootUnit, "Result"), "active success")
	o.want("/run/quiesce", o.run("stat", "--format", "%a", "/run/quiesce", "/run/quiesce/booted"), "700\n700")
	if before, after := o.property(bootUnit, "ExecMainExitTimestampMonotonic"), o.property("containerd.service", "ExecMainStartTimestampMonotonic"); before == "0" || len(before) > len(after) || len(before) == len(after) && before > after {
		o.Errorf("the boot unit ended at %s, containerd began at %s", before, after)
	}
	boot := o.property(bootUnit, "InvocationID")
	o.run("systemctl", "restart", "containerd.service")
	o.want("boot unit after a restart of containerd", o.property(bootUnit, "InvocationID"), boot)
	o.want("already in order after a boot", o.run(installer, "host"), "already in order")
}

// brokenBoot: if apply fails at boot, containerd starts all the same, and its restart does not try again.
func (o *onNode) brokenBoot() {
	o.Helper()
	dropIn := "/etc/systemd/system/" + bootUnit + ".d/broken.conf"
	o.run("mkdir", "-p", "/etc/systemd/system/"+bootUnit+".d")
	if err := o.n.WriteFile(dropIn, []byte("[Service]\nExecStart=\nExecStart=/bin/false\n"), 0o644); err != nil {
		o.Fatal(err)
	}
	o.reboot()
	o.want("boot unit", o.property(bootUnit, "ActiveState"), "failed")
	o.want("containerd", o.property("containerd.service", "ActiveState"), "active")
	o.want("daemon", o.property("quiesce.service", "ActiveState"), "active")
	o.run("systemctl", "restart", "containerd.service")
	o.want("its condition", o.property(bootUnit, "ConditionResult"), "no")
	o.run("rm", "-r", "/etc/systemd/system/"+bootUnit+".d")
}

// TestSettingsOnNode: settings for all nodes reach the daemon; bad ones are taken back, and the daemon runs on.
func TestSettingsOnNode(t *testing.T) {
	if testing.Short() {
		t.Skip("make unit leaves out what boots a node")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := node.New(t, node.Config{Name: "settings", Programs: map[string]string{"./plugin": "/root/programs/quiesce", "./installer": installer}})
	o := &onNode{t, n, ctx}
	o.run(installer, "host")
	give := func(text string) error {
		if err := n.WriteFile("/root/c.toml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := n.Exec(ctx, installer, "host", "--settings", "/root/c.toml")
		return err
	}
	const good = "quietPeriod = \"7s\"\n"
	if err := give(good); err != nil {
		t.Fatal(err)
	}
	o.want("the daemon's log", o.run("sh", "-c", "journalctl -u quiesce -o cat | grep -c QuietPeriod:7s"), "1")
	if err := give("quietperiod = 1"); err == nil || !strings.Contains(err.Error(), "quiesce.service") {
		t.Errorf("bad settings: %v", err)
	}
	o.want("settings", o.run("cat", "/etc/quiesce/config.toml"), strings.TrimSpace(good))
	o.want("daemon", o.property("quiesce.service", "ActiveState"), "active")
}
