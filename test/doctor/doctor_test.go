package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

type finding struct{ Check, Severity, What, Remedy string }

type patient struct {
	*testing.T
	ctx context.Context
	*lab.Lab
}

// examine runs the doctor: its exit code and its findings.
func (p *patient) examine() (code int, all []finding) {
	p.Helper()
	out, err := p.Quiesce(p.ctx, "doctor", "--output", "json")
	if exit, ok := errors.AsType[*node.ExitError](err); ok {
		code = exit.Code
	} else if err != nil {
		p.Fatal(err)
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&all); err != nil {
		p.Fatalf("%v:\n%s", err, out)
	}
	return code, all
}

func (p *patient) sh(script string) {
	p.Helper()
	if out, err := p.Exec(p.ctx, "sh", "-ec", script); err != nil {
		p.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// clean waits until nothing is wrong any more.
func (p *patient) clean() {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	err := p.Until(ctx, "the node is healthy", func(context.Context) (bool, error) {
		code, _ := p.examine()
		return code == 0, nil
	})
	if err != nil {
		table, _ := p.Quiesce(p.ctx, "doctor")
		p.Fatalf("%v:\n%s", err, table)
	}
}

const conf = "/etc/quiesce/config.toml"

func TestDoctor(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the doctor's ten minutes are over"))
	defer cancel()
	l, err := lab.Boot(ctx, lab.Options{Name: "doctor", Node: node.Config{SystemdCgroup: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	p := &patient{t, ctx, l}
	_, err = l.StartPod(ctx, node.Pod{Name: "running", Containers: []node.Container{node.Shell("sleep 1000")}})
	if err != nil {
		t.Fatal(err)
	}
	p.clean()
	table, err := l.Quiesce(ctx, "doctor")
	if err != nil || strings.Contains(table, "PROBLEM") || strings.Contains(table, "WARNING") {
		t.Errorf("a healthy node: %v\n%s", err, table)
	}
	t.Logf("a healthy node:\n%s", table)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) { (&patient{t, ctx, l}).suffers(f) })
	}
	stuck(p)
	dead(p)
}

// fault is what goes wrong, which check finds it, and the doctor's exit code.
type fault struct {
	name, harm, heal, check string
	code                    int
}

func faults() []fault {
	return []fault{
		{"daemon stopped", "systemctl stop quiesce", "systemctl start quiesce", "daemon", 1},
		{"daemon hangs", "systemctl kill -s STOP quiesce", "systemctl kill -s CONT quiesce", "daemon", 1},
		{"bad settings", "cp " + conf + " /tmp/c; echo 'quietperiod = 1' >>" + conf, "cp /tmp/c " + conf, "settings", 1},
		{"drain unit stopped", "mv /opt/quiesce/bin/quiesce /opt/quiesce/bin/away; systemctl stop quiesce-drain || true; mv /opt/quiesce/bin/away /opt/quiesce/bin/quiesce", "systemctl reset-failed quiesce-drain; systemctl start quiesce-drain", "units", 1},
		{"drain unit disabled", "rm /etc/systemd/system/containerd.service.wants/quiesce-drain.service; systemctl daemon-reload", "systemctl enable quiesce-drain", "unit order", 1},
		{"drain unit unordered", "cp /etc/systemd/system/quiesce-drain.service /tmp/u; sed -i '/^After=/d' /etc/systemd/system/quiesce-drain.service; systemctl daemon-reload", "cp /tmp/u /etc/systemd/system/quiesce-drain.service; systemctl daemon-reload", "unit order", 1},
		{"unit edited", "echo '# x' >>/etc/systemd/system/quiesce.service; touch -d '+1 minute' /etc/systemd/system/quiesce.service", "systemctl daemon-reload", "units", 3},
		{"scopes' drop-in lost", "mv /etc/systemd/system/cri-containerd-.scope.d/50-quiesce.conf /tmp; systemctl daemon-reload", "mv /tmp/50-quiesce.conf /etc/systemd/system/cri-containerd-.scope.d; systemctl daemon-reload", "scopes", 1},
		{"scopes' drop-in not in effect", "mv /etc/systemd/system/cri-containerd-.scope.d/50-quiesce.conf /tmp; systemctl daemon-reload; mv /tmp/50-quiesce.conf /etc/systemd/system/cri-containerd-.scope.d", "systemctl daemon-reload", "scopes", 1},
		{"logind does not wait", "mkdir -p /etc/systemd/logind.conf.d; printf '[Login]\\nInhibitDelayMaxSec=0\\n' >/etc/systemd/logind.conf.d/zzzz.conf; systemctl restart systemd-logind", "rm /etc/systemd/logind.conf.d/zzzz.conf; systemctl restart systemd-logind", "logind", 3},
		{"kubelet's own shutdown", "mkdir -p /var/lib/kubelet; echo 'shutdownGracePeriod: 30s' >/var/lib/kubelet/config.yaml", "rm /var/lib/kubelet/config.yaml", "kubelet shutdown", 3},
		{"open inbox", "chmod 777 /var/lib/quiesce/inbox", "chmod 700 /var/lib/quiesce/inbox", "stage", 1},
		{"inbox of another", "chown 1000 /var/lib/quiesce/inbox", "chown 0 /var/lib/quiesce/inbox", "stage", 1},
		{"results closed", "chmod 700 /var/lib/quiesce/results", "chmod 755 /var/lib/quiesce/results", "stage", 3},
		{"frozen", "echo '{}' >/var/lib/quiesce/store/freeze.json", "/opt/quiesce/bin/quiesce thaw", "apply", 1},
		{"no stage", "mv /var/lib/quiesce /var/lib/away", "mv /var/lib/away /var/lib/quiesce", "stage", 1},
		{"needrestart", "mkdir -p /etc/needrestart; echo \"\\$nrconf{restart} = 'a';\" >/etc/needrestart/needrestart.conf", "mkdir -p /etc/needrestart/conf.d; echo '$nrconf{override_rc}{qr(^(containerd|kubelet))} = 0;' >/etc/needrestart/conf.d/q.conf", "package manager", 3},
		{"NRI off", "cp /etc/containerd/config.toml /tmp/k; printf \"\\n[plugins.'io.containerd.nri.v1.nri']\\n  disable = true\\n\" >>/etc/containerd/config.toml; systemctl restart containerd", "cp /tmp/k /etc/containerd/config.toml; systemctl restart containerd", "nri", 1},
		{"hasty NRI", "printf \"\\n[plugins.'io.containerd.nri.v1.nri']\\n  plugin_request_timeout = '100ms'\\n\" >>/etc/containerd/config.toml", "cp /tmp/k /etc/containerd/config.toml", "nri timeouts", 3},
		{"containerd's config broken", "echo nonsense >>/etc/containerd/config.toml", "cp /tmp/k /etc/containerd/config.toml", "containerd", 1},
	}
}

// suffers does harm, looks what is found, and heals.
func (p *patient) suffers(tt fault) {
	p.Helper()
	p.sh(tt.harm)
	code, all := p.examine()
	found := false
	for _, f := range all {
		if f.Check == tt.check && (f.Severity == "problem" || f.Severity == "warning") && f.Remedy != "" {
			found = true
			p.Logf("%s: %s → %s", f.Severity, f.What, f.Remedy)
		}
	}
	if !found || code != tt.code {
		p.Errorf("exit code %d, want %d; finding of %q: %v; all: %+v", code, tt.code, tt.check, found, all)
	}
	p.sh(tt.heal)
	p.clean()
}

// stuck: an installer that does not end is named.
func stuck(p *patient) {
	p.Helper()
	p.sh("echo 'installerTimeout = \"1s\"' | cat - " + conf + " >/tmp/n; cp /tmp/n " + conf)
	pod, err := p.StartPod(p.ctx, lab.InstallPod("hangs", "x", 1000, 0))
	if err != nil {
		p.Fatal(err)
	}
	err = p.Until(p.ctx, "the stuck installer is found", func(context.Context) (bool, error) {
		code, all := p.examine()
		for _, f := range all {
			if f.Check == "installers" && f.Severity == "warning" && strings.Contains(f.What, "kube-system/hangs") {
				return code == 3, nil
			}
		}
		return false, nil
	})
	if err != nil {
		p.Error(err)
	}
	if err := pod.Stop(p.ctx); err != nil {
		p.Error(err)
	}
}

// dead: without the daemon, containerd and D-Bus there is still an answer.
func dead(p *patient) {
	p.Helper()
	p.sh("systemctl stop quiesce dbus.socket dbus.service; systemctl kill -s KILL containerd; systemctl mask --now --runtime containerd 2>/dev/null || true")
	code, all := p.examine()
	bad := map[string]bool{}
	for _, f := range all {
		bad[f.Check] = bad[f.Check] || f.Severity == "problem" || f.Severity == "warning"
	}
	if code != 1 || !bad["daemon"] || !bad["containerd"] || !bad["logind"] {
		p.Errorf("exit code %d: %+v", code, all)
	}
}
