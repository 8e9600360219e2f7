package manifests_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"quiesce/manifests"
)

func render(t *testing.T, runtime string) map[string]string {
	t.Helper()
	units, err := manifests.Units(runtime)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, u := range units {
		out[u.Name] = string(u.Text)
	}
	return out
}

func TestUnits(t *testing.T) {
	want := map[string][]string{
		"quiesce.service": {
			"Type=notify", "ExecStart=/opt/quiesce/bin/quiesce run", "WatchdogSec=30", "Restart=always", "RestartSec=1",
			"RuntimeDirectory=quiesce", "RuntimeDirectoryPreserve=yes", "StartLimitIntervalSec=0", "WantedBy=multi-user.target",
		},
		"quiesce-apply.service": {"Type=oneshot", "ExecStart=/opt/quiesce/bin/quiesce apply --unit", "TimeoutStartSec=300", "KillMode=mixed"},
		"quiesce-apply-boot.service": {
			"Type=oneshot", "Before=containerd.service", "ExecStart=/opt/quiesce/bin/quiesce apply --boot", "TimeoutStartSec=60",
			"RemainAfterExit=yes", "WantedBy=containerd.service", "ConditionPathExists=!/run/quiesce/booted", "RuntimeDirectory=quiesce/booted",
		},
		"quiesce-drain.service": {
			"Type=oneshot", "RemainAfterExit=yes", "NotifyAccess=all", "PartOf=containerd.service", "WantedBy=containerd.service", "Before=kubelet.service",
			"ExecStart=/opt/quiesce/bin/quiesce drain --from-systemd start", "ExecStop=/opt/quiesce/bin/quiesce drain --from-systemd stop",
			"ExecStopPost=/opt/quiesce/bin/quiesce drain --from-systemd stop-post",
		},
	}
	want["cri-containerd-.scope.d/50-quiesce.conf"] = []string{"[Unit]", "Before=quiesce-drain.service"}
	got := render(t, manifests.DefaultUnit)
	for name, lines := range want {
		have := strings.Split(got[name], "\n")
		for _, l := range lines {
			if !slices.Contains(have, l) {
				t.Errorf("%s lacks %s", name, l)
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("units: %d, want %d", len(got), len(want))
	}
}

// A unit that restarts containerd and is ordered against it deadlocks; one that requires it takes it down.
func TestUnitsAreNotTiedToTheRuntime(t *testing.T) {
	for name, text := range render(t, manifests.DefaultUnit) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || !strings.Contains(line, manifests.DefaultUnit) {
				continue
			}
			boot := name == "quiesce-apply-boot.service" && (strings.HasPrefix(line, "Before=") || strings.HasPrefix(line, "WantedBy="))
			drain := name == "quiesce-drain.service" && !strings.HasPrefix(line, "Requires=") && !strings.HasPrefix(line, "Before=")
			if !boot && !drain {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestUnitsOfAnotherRuntime(t *testing.T) {
	for name, text := range render(t, "k3s.service") {
		if strings.Contains(text, manifests.DefaultUnit) {
			t.Errorf("%s still names %s", name, manifests.DefaultUnit)
		}
	}
	if text := render(t, "k3s.service")["quiesce-apply-boot.service"]; !strings.Contains(text, "\nBefore=k3s.service\n") {
		t.Errorf("boot unit:\n%s", text)
	}
}

func TestConfig(t *testing.T) {
	def := manifests.Config(manifests.DefaultUnit)
	var set map[string]any
	if err := toml.Unmarshal(def, &set); err != nil || len(set) > 0 {
		t.Errorf("the default sets %v, %v; want nothing", set, err)
	}
	var all []string
	for line := range strings.Lines(string(def)) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			all = append(all, line[1:])
		}
	}
	if err := toml.Unmarshal([]byte(strings.Join(all, "")), &set); err != nil || len(set) != 24 {
		t.Errorf("uncommented: %v, %v; want 24 settings", set, err)
	}
	other := manifests.Config("k3s.service")
	if got := manifests.ConfigUnit(other); got != "k3s.service" || bytes.Equal(other, def) {
		t.Errorf("unit is %q", got)
	}
	if got := manifests.ConfigUnit(def); got != manifests.DefaultUnit {
		t.Errorf("unit is %q", got)
	}
}
